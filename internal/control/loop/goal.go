package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/loop/compact"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/proof"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// judge asks a second model whether the pushed work meets the run's goal, and
// journals the verdict. notified means that the goal is not met and that judge
// has told the agent's model what is missing, so the rest of finish must wait.
func (l *Loop) judge(ctx context.Context) (notified bool, err error) {
	s := l.rec.Snapshot()
	if !proof.MustJudge(s) {
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
		l.Logger.Warn("cannot judge the goal", "error", err)
		judged.Verdict = agent.GoalVerdict{Failure: failure(err).Message}
	}
	judged.Verdict.Goal = s.Judging.Goal
	bodies := []agent.Body{judged}
	if !judged.Verdict.Met && judged.Verdict.Failure == "" && !s.Judging.Unchanged(s.Run.Branches) && s.Judging.SentBack < l.Checks.MaxSendBacks() {
		notified = true
		bodies = append(bodies, &agent.Notice{Code: agent.CodeGoal, Text: "Your work is pushed, but it does not meet the goal of this run yet.\n\nThe goal: " + s.Judging.Goal +
			"\n\nWhat is missing, as another model judged by the diff and the checks: " + judged.Verdict.Missing +
			"\n\nDo it, then end your turn. If it cannot be done, or the judgement is wrong, say so in your final message."})
	}
	last, cancel := journal.Outliving(ctx) // the verdict is already paid for
	defer cancel()
	return notified, l.rec.Record(last, bodies...)
}

// verdict asks the model whether the goal is reached, and stores the answer in
// judged.
func (l *Loop) verdict(ctx context.Context, s *agent.State, judged *agent.GoalJudged) error {
	c := l.own.fastModel("goal")
	judged.Model = c.info.ID
	in := proof.GoalInput{Goal: s.Judging.Goal, Task: compact.Cut(strings.Join(s.Asked, "\n\n"), proof.MaxGoalTask), Checks: append([]agent.CheckResult{}, s.Checking.Results...)}
	if l.Diff != nil {
		var err error
		if in.Diff, in.Cut, err = l.Diff(ctx, s, proof.MaxGoalDiff); err != nil {
			return fmt.Errorf("read the diff: %w", err)
		}
	}
	ask, err := json.MarshalIndent(in, "", "  ")
	if err != nil {
		return err
	}
	text, used, err := l.own.askAside(ctx, &c, model.Request{
		System: proof.GoalPrompt, Messages: []conversation.Message{conversation.Text(conversation.User, string(ask))},
		MaxTokens: proof.MaxGoalReply, Schema: json.RawMessage(proof.GoalSchema),
	})
	judged.Model, judged.Usage = c.info.ID, used
	if err != nil {
		return err
	}
	judged.Verdict, err = proof.ReadVerdict(text)
	return err
}
