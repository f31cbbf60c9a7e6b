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

// Modes of working. An agent in plan mode changes nothing before a person has
// approved its plan.
const (
	ModeAgent = "agent"
	ModePlan  = "plan"
)

// planWords are said after what is asked of an agent that is in plan mode.
const planWords = "You are in plan mode: change nothing yet. Look at what the task touches, with tools that only read; Shell runs without a network, and can write nowhere. " +
	"Ask with AskQuestion what only the user can decide. Then call CreatePlan, once, and do not repeat the plan in other words. " +
	"When the user has approved it plan mode is over, and you carry it out."
