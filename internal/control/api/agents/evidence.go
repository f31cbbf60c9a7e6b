package agents

import (
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
)

// EvidenceJSON is the evidence for the outcome of a run.
type EvidenceJSON struct {
	_       struct{}            `json:"-" additionalProperties:"true"`
	Checks  []checkResultJSON   `json:"checks" nullable:"false" doc:"results of the last round of checks"`
	Commits []checkedCommitJSON `json:"commits,omitempty" nullable:"false" doc:"commits on which the checks ran"`
	Rounds  int                 `json:"rounds,omitempty" minimum:"1" doc:"how many rounds of checks there were"`
	Goal    *goalVerdictJSON    `json:"goal,omitempty" doc:"the verdict on the run's goal"`
	Stale   bool                `json:"stale,omitempty" doc:"whether another commit was pushed than the one on which the checks ran"`

	Bugfixes []bugfixJSON `json:"bugfixes,omitempty" nullable:"false" doc:"what the agent has reported about bugs; nobody has verified it"`
}

type bugfixJSON struct {
	_           struct{} `json:"-" additionalProperties:"true"`
	ID          string   `json:"id" doc:"as in the task"`
	Title       string   `json:"title,omitempty"`
	Verdict     string   `json:"verdict" enum:"fixed,not_a_bug,not_fixed"`
	Explanation string   `json:"explanation,omitempty" doc:"how it was fixed and verified, or why it was not"`
}

type goalVerdictJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Goal    string   `json:"goal"`
	Met     bool     `json:"met"`
	Missing string   `json:"missing,omitempty" doc:"what is missing, as the judging model says"`
	Failure string   `json:"failure,omitempty" doc:"why there is no verdict; met is false then"`
}

type checkResultJSON struct {
	_          struct{} `json:"-" additionalProperties:"true"`
	Command    string   `json:"command"`
	Source     string   `json:"source" enum:"request,environment" doc:"who wants the check"`
	State      string   `json:"state" enum:"passed,failed,not_run,lost" doc:"not_run: the run mode, a hook or a person did not allow it; lost: the machine was lost while it ran"`
	ExitCode   *int     `json:"exitCode,omitempty" doc:"absent if it was killed, timed out or did not run"`
	DurationMS int64    `json:"durationMs,omitempty" minimum:"0"`
	Output     string   `json:"output,omitempty" doc:"the end of its output, at most 4 KiB"`
}

type checkedCommitJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	RepoURL string   `json:"repoUrl" minLength:"1" doc:"without its scheme"`
	Commit  string   `json:"commit"`
}

// EvidenceOf returns the evidence in the API's form, or nil if there is none.
func EvidenceOf(e *agent.Evidence) *EvidenceJSON {
	if e == nil {
		return nil
	}
	out := &EvidenceJSON{Checks: []checkResultJSON{}, Rounds: e.Rounds, Stale: e.Stale}
	for _, r := range e.Checks {
		out.Checks = append(out.Checks, checkResultJSON{
			Command: r.Command, Source: r.Source, State: string(r.State), ExitCode: r.ExitCode, DurationMS: r.DurationMS, Output: r.Output,
		})
	}
	for _, c := range e.Commits {
		out.Commits = append(out.Commits, checkedCommitJSON{RepoURL: rest.WithoutScheme(c.RepoURL), Commit: c.Commit})
	}
	for _, b := range e.Bugfixes {
		out.Bugfixes = append(out.Bugfixes, bugfixJSON{ID: b.ID, Title: b.Title, Verdict: b.Verdict, Explanation: b.Explanation})
	}
	if g := e.Goal; g != nil {
		out.Goal = &goalVerdictJSON{Goal: g.Goal, Met: g.Met, Missing: g.Missing, Failure: g.Failure}
	}
	return out
}
