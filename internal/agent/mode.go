package agent

// Modes of working. In plan mode an agent changes nothing until a person has
// approved its plan or its request to leave the mode.
const (
	ModeAgent = "agent"
	ModePlan  = "plan"
)

// SwitchTool is the tool with which an agent changes its mode.
const SwitchTool = "SwitchMode"

// ModeSwitched records the agent's new mode. It is journaled together with the
// [CallDone] of a call of [SwitchTool].
type ModeSwitched struct {
	Mode string `json:"mode"`
}

var _ = register(&ModeSwitched{})

// Kind implements [Body].
func (*ModeSwitched) Kind() string { return "mode.switched" }

func (b *ModeSwitched) fold(s *State, _ Event) { s.Mode = b.Mode }

// PlanWords is the text for the agent when plan mode begins.
const PlanWords = "You are in plan mode: change nothing yet. Look at what the task touches, with tools that only read; Shell has no network and cannot write anywhere. " +
	"Ask with AskQuestion what only the user can decide. Then call CreatePlan, once, and do not repeat the plan in other words. " +
	"When the user approves the plan, plan mode ends, and you carry the plan out."
