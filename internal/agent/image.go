package agent

import "aloft/internal/conversation"

// ImageGenerated records that a model generated an image for a call, or was
// paid without doing so.
type ImageGenerated struct {
	CallID string             `json:"callId"`
	Model  string             `json:"model"`
	Bytes  int                `json:"bytes,omitempty"` // 0 if it sent no image
	Usage  conversation.Usage `json:"usage"`
}

var _ = register(&ImageGenerated{})

// Kind implements [Body].
func (*ImageGenerated) Kind() string { return "image.generated" }
