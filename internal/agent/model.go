package agent

import "aloft/internal/conversation"

type (
	// ModelFallback records that another model answers instead of one whose
	// provider is busy.
	ModelFallback struct {
		From     string `json:"from"`   // reference to the model, see model.Ref
		To       string `json:"to"`     // likewise
		Reason   string `json:"reason"` // of the last failure
		Message  string `json:"message,omitempty"`
		Attempts int    `json:"attempts"` // that have failed
		// Purpose is "" if the models take part in the conversation: then To
		// answers until the end of the run. Otherwise it names the one request
		// that To answers, such as "goal".
		Purpose string `json:"purpose,omitempty"`
	}
	// Titled records the title that a model gave the agent.
	Titled struct {
		Title string             `json:"title"`
		Model string             `json:"model"`
		Usage conversation.Usage `json:"usage"`
	}
)

var _ = register(&ModelFallback{}, &Titled{})

// Kind implements [Body].
func (*ModelFallback) Kind() string { return "model.fallback" }

// Kind implements [Body].
func (*Titled) Kind() string { return "agent.titled" }

func (*Titled) fold(s *State, _ Event) { s.Titled = true }
