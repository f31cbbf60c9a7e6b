package loop

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/loop/compact"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

//go:embed prompts/goal.md
var goalWords string

// goalSchema is the format of the model's reply.
const goalSchema = `{"type":"object","properties":{"met":{"type":"boolean"},"missing":{"type":"string"}},"required":["met","missing"],"additionalProperties":false}`

// Limits of a judgement of the goal, in bytes.
const (
	maxGoalDiff    = 100_000
	maxGoalTask    = 16_000
	maxGoalMissing = 2_000
	goalReply      = 1_024 // tokens
)

// goalInput is what the judging model sees: nothing that the agent has said.
type goalInput struct {
	Goal   string              `json:"goal"`
	Task   string              `json:"task"`
	Diff   string              `json:"diff"`
	Cut    bool                `json:"diff_is_cut,omitempty"`
	Checks []agent.CheckResult `json:"checks"`
}

// mustJudge reports whether the goal has to be judged before the run can
// finish. It is not judged if checks have failed until the end: then the run
// has not achieved it anyway.
func (l *Loop) mustJudge(s *agent.State) bool {
	return s.Judging.Goal != "" && s.Mode != agent.ModePlan && !s.JudgedNow() && len(failed(s.Checking.Results)) == 0
}

// judge asks a second model whether the pushed work meets the run's goal, and
// journals the verdict. told means that it does not, and that the agent's model
// was told what is missing, so the rest of finish must wait.
func (l *Loop) judge(ctx context.Context) (told bool, err error) {
	s := l.rec.Snapshot()
	if !l.mustJudge(s) {
		return false, nil
	}
	if err := l.checkLimits(); err != nil {
		return false, err
	}
	judged := &agent.GoalJudged{}
	if err := l.verdict(ctx, s, judged); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return false, cause
		}
		if journal.LeavesOpen(err) {
			return false, err
		}
		l.Logger.Warn("the goal was not judged", "error", err)
		judged.Verdict = agent.GoalVerdict{Failure: failure(err).Message}
	}
	judged.Verdict.Goal = s.Judging.Goal
	bodies := []agent.Body{judged}
	if !judged.Verdict.Met && judged.Verdict.Failure == "" && !s.Judging.Unchanged(s.Run.Branches) && s.Judging.SentBack < l.Checks.rounds() {
		told = true
		bodies = append(bodies, &agent.Notice{Code: agent.CodeGoal, Text: "Your work is pushed, but it does not meet the goal of this run yet.\n\nThe goal: " + s.Judging.Goal +
			"\n\nWhat is missing, as another model judged by the diff and the checks: " + judged.Verdict.Missing +
			"\n\nDo it, then end your turn. If it cannot be done, or the judgement is wrong, say so in your final message."})
	}
	last, cancel := journal.Outliving(ctx) // the verdict is already paid for
	defer cancel()
	return told, l.rec.Record(last, bodies...)
}

// verdict asks the model and fills in judged.
func (l *Loop) verdict(ctx context.Context, s *agent.State, judged *agent.GoalJudged) error {
	c := l.own.fastModel("goal")
	judged.Model = c.info.ID
	in := goalInput{Goal: s.Judging.Goal, Task: compact.Cut(strings.Join(s.Asked, "\n\n"), maxGoalTask), Checks: append([]agent.CheckResult{}, s.Checking.Results...)}
	if l.Diff != nil {
		var err error
		if in.Diff, in.Cut, err = l.Diff(ctx, s, maxGoalDiff); err != nil {
			return fmt.Errorf("read the diff: %w", err)
		}
	}
	ask, err := json.MarshalIndent(in, "", "  ")
	if err != nil {
		return err
	}
	text, used, err := l.own.askAside(ctx, &c, model.Request{
		System: goalWords, Messages: []conversation.Message{conversation.Text(conversation.User, string(ask))},
		MaxTokens: goalReply, Schema: json.RawMessage(goalSchema),
	})
	judged.Model, judged.Usage = c.info.ID, used
	if err != nil {
		return err
	}
	judged.Verdict, err = readVerdict(text)
	return err
}

// readVerdict parses the judging model's reply, which must be one JSON object.
func readVerdict(text string) (agent.GoalVerdict, error) {
	var in struct {
		Met     *bool  `json:"met"`
		Missing string `json:"missing"`
	}
	if readAnswer(text, &in) != nil || in.Met == nil {
		return agent.GoalVerdict{}, errors.New("the judging model's reply is not a verdict")
	}
	return agent.GoalVerdict{Met: *in.Met, Missing: compact.Cut(in.Missing, maxGoalMissing)}, nil
}
