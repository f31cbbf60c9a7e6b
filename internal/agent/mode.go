package agent

// Modes of working. An agent in plan mode changes nothing before a person has
// approved its plan, or its wish to go on without.
const (
	ModeAgent = "agent"
	ModePlan  = "plan"
)

// SwitchTool is the tool by which an agent goes on in another mode.
const SwitchTool = "SwitchMode"

// ModeSwitched says in which mode the agent works from now on. It is journaled
// together with the [CallDone] of a call of [SwitchTool].
type ModeSwitched struct {
	Mode string `json:"mode"`
}

// Kind implements [Body].
func (*ModeSwitched) Kind() string { return "mode.switched" }

// PlanWords are said to an agent when plan mode begins.
const PlanWords = "You are in plan mode: change nothing yet. Look at what the task touches, with tools that only read; Shell runs without a network, and can write nowhere. " +
	"Ask with AskQuestion what only the user can decide. Then call CreatePlan, once, and do not repeat the plan in other words. " +
	"When the user has approved it plan mode is over, and you carry it out."
