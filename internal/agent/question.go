package agent

// Tools whose calls are themselves put to a person, and have what is said as
// their result.
const (
	QuestionTool = "AskQuestion"
	PlanTool     = "CreatePlan"
)

// Own reports whether it is the agent itself that asks: a question, or what is
// thought of its plan. No call waits then to be allowed.
func (q Approval) Own() bool { return q.Tool == QuestionTool || q.Tool == PlanTool }

// A Question is what the agent wants to know of a person.
type Question struct {
	ID            string   `json:"id"`
	Prompt        string   `json:"prompt"`
	Options       []Option `json:"options,omitempty"` // none: it is answered in words
	AllowMultiple bool     `json:"allowMultiple,omitempty"`
}

// An Option is one that the agent offers.
type Option struct {
	ID    string `json:"id"`
	Label string `json:"label"`
}

// An Answer is what a person says to one question: options, words or both.
type Answer struct {
	QuestionID string   `json:"questionId"`
	OptionIDs  []string `json:"optionIds,omitempty"`
	Text       string   `json:"text,omitempty"`
}
