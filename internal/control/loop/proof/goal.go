package proof

import (
	_ "embed"
	"errors"

	"aloft/internal/agent"
	"aloft/internal/control/loop/compact"
	"aloft/internal/control/model"
)

// GoalPrompt is the system prompt of the judging model.
//
//go:embed prompts/goal.md
var GoalPrompt string

// GoalSchema is the format of the model's reply.
const GoalSchema = `{"type":"object","properties":{"met":{"type":"boolean"},"missing":{"type":"string"}},"required":["met","missing"],"additionalProperties":false}`

// Limits on the inputs of a judgement of the goal, in bytes.
const (
	MaxGoalDiff    = 100_000
	MaxGoalTask    = 16_000
	maxGoalMissing = 2_000
	MaxGoalReply   = 1_024 // tokens
)

// GoalInput is the input of the judging model. It contains no text of the
// agent.
type GoalInput struct {
	Goal   string              `json:"goal"`
	Task   string              `json:"task"`
	Diff   string              `json:"diff"`
	Cut    bool                `json:"diff_is_cut,omitempty"`
	Checks []agent.CheckResult `json:"checks"`
}

// MustJudge reports whether the goal has to be judged before the run can
// finish. If checks still fail at the end, the run has not achieved the goal,
// so it need not be judged.
func MustJudge(s *agent.State) bool {
	return s.Judging.Goal != "" && s.Mode != agent.ModePlan && !s.JudgedNow() && len(failed(s.Checking.Results)) == 0
}

// ReadVerdict parses the judging model's reply, which must be one JSON object.
func ReadVerdict(text string) (agent.GoalVerdict, error) {
	var in struct {
		Met     *bool  `json:"met"`
		Missing string `json:"missing"`
	}
	if model.ReadObject(text, &in) != nil || in.Met == nil {
		return agent.GoalVerdict{}, errors.New("the judging model's reply is not a verdict")
	}
	return agent.GoalVerdict{Met: *in.Met, Missing: compact.Cut(in.Missing, maxGoalMissing)}, nil
}
