package agent

// Tools with which the agent asks a person. The person's answer is the result
// of the call.
const (
	QuestionTool = "AskQuestion"
	PlanTool     = "CreatePlan"
)

// IsQuestion reports whether the agent itself asks a question, or asks for approval of
// its plan. In that case no call waits for permission.
func (q Approval) IsQuestion() bool { return q.Tool == QuestionTool || q.Tool == PlanTool }

// A Question is something that the agent asks a person.
type Question struct {
	ID            string   `json:"id"`
	Prompt        string   `json:"prompt"`
	Options       []Option `json:"options,omitempty"` // if empty, the answer is free text
	AllowMultiple bool     `json:"allowMultiple,omitempty"`
}

// An Option is a possible answer that the agent offers.
type Option struct {
	ID    string `json:"id"`
	Label string `json:"label"`
}

// An Answer is a person's answer to one question: options, text or both.
type Answer struct {
	QuestionID string   `json:"questionId"`
	OptionIDs  []string `json:"optionIds,omitempty"`
	Text       string   `json:"text,omitempty"`
}
