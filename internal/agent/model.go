package agent

import "aloft/internal/conversation"

type (
	// ModelFallback records that another model replaces a model whose provider is busy.
	ModelFallback struct {
		From     string `json:"from"`   // reference to the model, see model.Ref
		To       string `json:"to"`     // reference to the model that replaces it
		Reason   string `json:"reason"` // reason of the last failure
		Message  string `json:"message,omitempty"`
		Attempts int    `json:"attempts"` // number of failed attempts
		// Purpose is "" if the models take part in the conversation: in that case the model To
		// replies until the run ends. Otherwise Purpose names the one request that To answers,
		// such as "goal".
		Purpose string `json:"purpose,omitempty"`
	}
	// Titled records a new name of the agent.
	Titled struct {
		Title string             `json:"title"`
		Model string             `json:"model"` // the model that made the title; "" if a person did
		Usage conversation.Usage `json:"usage"`
		// Replaces is the only name that the title replaces; "" means any.
		Replaces string `json:"replaces,omitempty"`
	}
)

var _ = register(&ModelFallback{}, &Titled{})

// Kind implements [Body].
func (*ModelFallback) Kind() string { return "model.fallback" }

// Kind implements [Body].
func (*Titled) Kind() string { return "agent.titled" }

func (*Titled) fold(s *State, _ Event) { s.Titled = true }
