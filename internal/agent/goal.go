package agent

import (
	"slices"

	"aloft/internal/conversation"
)

// MaxGoal is the maximum length of a goal in bytes.
const MaxGoal = 4 << 10

// CodeGoal is the code of the notice that tells the model what is missing from
// the goal.
const CodeGoal = "goal_not_met"

// GoalJudged records whether a second model found that the work meets the goal of the
// run. If the model is sent back to work, a [Notice] with [CodeGoal] is journaled
// together with it.
type GoalJudged struct {
	Verdict GoalVerdict        `json:"verdict"`
	Model   string             `json:"model"`
	Usage   conversation.Usage `json:"usage"`
}

var _ = register(&GoalJudged{})

// Kind implements [Body].
func (*GoalJudged) Kind() string { return "goal.judged" }

// GoalVerdict is the verdict of a second model on the goal of a run.
type GoalVerdict struct {
	Goal    string `json:"goal"`
	Met     bool   `json:"met"`
	Missing string `json:"missing,omitempty"` // the missing parts of the goal
	Failure string `json:"failure,omitempty"` // why there is no verdict; in that case Met is false
}

// Judging is the state of a run's goal.
type Judging struct {
	Goal     string       // "" if the run has none
	Verdict  *GoalVerdict // the latest verdict in this run
	Turn     int          // number of the run's replies at the time of Verdict
	SentBack int          // how often a verdict has sent the model back to work in this run
	Before   []Branch     // the pushed commits when the model was last sent back to work
	Stuck    bool         // nothing was pushed since Before, and the goal is still not met
}

// JudgedNow reports whether the latest verdict is about the model's last reply.
func (s *State) JudgedNow() bool {
	return s.Judging.Verdict != nil && s.Judging.Turn == s.Run.Turns
}

// Unchanged reports whether the model was sent back to work and has not pushed since.
// pushed are the branches on the remote now.
func (j *Judging) Unchanged(pushed []Branch) bool {
	return j.SentBack > 0 && slices.Equal(j.Before, pushed)
}

// judge folds events about the goal.
func (s *State) judge(e Event) {
	j := &s.Judging
	switch b := e.Body.(type) {
	case *RunCreated:
		*j = Judging{Goal: j.Goal}
		if b.Goal != nil {
			j.Goal = *b.Goal
		}
	case *GoalJudged:
		verdict := b.Verdict
		j.Verdict, j.Turn = &verdict, s.Run.Turns
		j.Stuck = !verdict.Met && j.Unchanged(s.Run.Branches)
	case *Notice:
		if b.Code == CodeGoal {
			j.SentBack++
			j.Before = slices.Clone(s.Run.Branches)
		}
	}
}
