package agent

import "aloft/internal/conversation"

// ImageGenerated records that a model generated an image for a call, or charged for the
// request without sending an image.
type ImageGenerated struct {
	CallID string             `json:"callId"`
	Model  string             `json:"model"`
	Bytes  int                `json:"bytes,omitempty"` // 0 if the model sent no image
	Usage  conversation.Usage `json:"usage"`
}

var _ = register(&ImageGenerated{})

// Kind implements [Body].
func (*ImageGenerated) Kind() string { return "image.generated" }
