package agent

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// MaxChecks is how many checks a request or an environment may have.
const MaxChecks = 20

// MaxCheckCommand is the maximum length of a check's command in bytes.
const MaxCheckCommand = 8 << 10

// A Check is a shell command that must succeed on the commit that a run pushes.
type Check struct {
	Command string `json:"command"`
	Source  string `json:"source"` // CheckOfRequest or CheckOfEnvironment
}

// Sources of a [Check].
const (
	CheckOfRequest     = "request"     // an option of the request, from the user
	CheckOfEnvironment = "environment" // judged like any command of the repository
)

// ChecksThread is the CallID of the [Within] events of a run's checks. No call
// has this id.
const ChecksThread = "checks"

// CodeChecks is the code of the notice that tells the model which checks
// failed.
const CodeChecks = "checks_failed"

type (
	// ChecksBegan records that a round of checks starts. It is journaled before
	// the first check is sent to the machine. The calls of the checks are
	// journaled as [Within] with [ChecksThread].
	ChecksBegan struct {
		Round   int             `json:"round"` // counts from 1 in each run
		Commits []CheckedCommit `json:"commits,omitempty"`
		Checks  []PlannedCheck  `json:"checks"`
	}
	// CheckedCommit is the commit of one repository during a round of checks.
	CheckedCommit struct {
		RepoURL string `json:"repoUrl"`
		Commit  string `json:"commit"`
	}
	// PlannedCheck is a check and the call that runs it.
	PlannedCheck struct {
		Check
		CallID string          `json:"callId"`
		Args   json.RawMessage `json:"args"` // of the Shell tool
	}
	// ChecksEnded records the results of a round. If the model is sent back to work, a
	// [Notice] with [CodeChecks] is journaled together with it.
	ChecksEnded struct {
		Results []CheckResult `json:"results"`
		// Again says that the machine was lost during the round, so the round
		// does not count and is repeated.
		Again bool `json:"again,omitempty"`
	}
)

var _ = register(&ChecksBegan{}, &ChecksEnded{})

// Kind implements [Body].
func (*ChecksBegan) Kind() string { return "checks.began" }

// Kind implements [Body].
func (*ChecksEnded) Kind() string { return "checks.ended" }

// CheckState is the outcome of a check.
type CheckState string

// The outcomes of a check.
const (
	CheckPassed CheckState = "passed"
	CheckFailed CheckState = "failed"  // the command exited with a non-zero status, was killed, or timed out
	CheckNotRun CheckState = "not_run" // refused by the run mode, a hook or a person
	CheckLost   CheckState = "lost"    // the machine was lost while the command ran
)

// CheckResult is the result of a check.
type CheckResult struct {
	Check
	State      CheckState `json:"state"`
	ExitCode   *int       `json:"exitCode,omitempty"` // nil unless the command exited by itself
	DurationMS int64      `json:"durationMs,omitempty"`
	Output     string     `json:"output,omitempty"` // the end of the output, at most maxCheckOutput bytes
}

// maxCheckOutput is how many bytes of a check's output are kept as evidence. The journal
// has more in the result of the check's call.
const maxCheckOutput = 4 << 10

// Checking is the state of a run's checks.
type Checking struct {
	ChecksBegan        // the latest round; Round is 0 if there was none
	Turn        int    // number of the run's replies when the round began
	Over        bool   // the round has ended
	Thread      Thread // contains the calls of the round that have no result yet
	Results     []CheckResult
	Repeated    int           // rounds of this run that were repeated because the machine was lost
	SentBack    int           // how often checks have sent the model back to work in this run
	Before      []CheckResult // results of the latest round that sent the model back to work
	At          []CheckedCommit
}

// Checks returns the checks of the run: those of the request, then those of the
// environment.
func (s *State) Checks() []Check {
	var all []Check
	add := func(source string, commands []string) {
		for _, c := range commands {
			if !slices.ContainsFunc(all, func(o Check) bool { return o.Command == c }) {
				all = append(all, Check{c, source})
			}
		}
	}
	add(CheckOfRequest, s.RequestChecks)
	add(CheckOfEnvironment, s.EnvironmentChecks)
	return all
}

// CheckedNow reports whether the latest round of checks is about the model's
// last reply.
func (s *State) CheckedNow() bool {
	return s.Checking.Round > 0 && s.Checking.Turn == s.Run.Turns
}

// CheckOf returns the check that a call runs, or nil.
func (s *State) CheckOf(callID string) *PlannedCheck {
	for i := range s.Checking.Checks {
		if c := &s.Checking.Checks[i]; c.CallID == callID {
			return c
		}
	}
	return nil
}

// check folds events about checks. It does not modify slices that copies of the
// state share.
func (s *State) check(e Event) {
	c := &s.Checking
	switch b := e.Body.(type) {
	case *RunCreated:
		*c = Checking{}
		if b.Checks != nil {
			s.RequestChecks = *b.Checks
		}
	case *MachineMade:
		s.EnvironmentChecks = b.Checks
	case *ChecksBegan:
		c.ChecksBegan, c.Turn, c.Over, c.Results = *b, s.Run.Turns, false, nil
		c.Thread.Calls = nil
		for _, p := range b.Checks {
			c.Thread.Calls = append(c.Thread.Calls, Call{ToolCall: checkCall(p)})
		}
	case *Within:
		if b.CallID == ChecksThread {
			c.foldWithin(b.Body)
		}
	case *ChecksEnded:
		c.Over, c.Results = true, b.Results
		c.Thread.Calls = nil
		if b.Again {
			c.Turn = -1 // the round is about no reply
			c.Repeated++
		}
	case *Notice:
		if b.Code == CodeChecks {
			c.SentBack++
			c.Before, c.At = c.Results, c.Commits
		}
	case *RunEnded:
		c.Thread.Calls = nil
	}
}

func (c *Checking) foldWithin(body Body) {
	done, ok := body.(*CallDone)
	if !ok {
		c.Thread.apply(body)
		return
	}
	call := c.Thread.call(done.CallID)
	if call == nil || call.Result != nil {
		return
	}
	i := slices.IndexFunc(c.Checks, func(p PlannedCheck) bool { return p.CallID == done.CallID })
	if i < 0 {
		return
	}
	c.Results = append(slices.Clip(c.Results), resultOfCheck(c.Checks[i].Check, call.Judged, done))
	c.Thread.Calls = slices.DeleteFunc(slices.Clone(c.Thread.Calls), func(o Call) bool { return o.ID == done.CallID })
}

// resultOfCheck returns a check's result, given the result of its call.
func resultOfCheck(check Check, judged *CallJudged, done *CallDone) CheckResult {
	r := CheckResult{Check: check, State: CheckFailed, DurationMS: done.DurationMS, Output: tail(done.Text, maxCheckOutput)}
	code, exited := ExitCode(done.Output)
	switch {
	case judged != nil && judged.Treatment == CallRefused:
		r.State = CheckNotRun
	case done.Error && done.Text == tool.Lost:
		r.State = CheckLost
	case done.Error || !exited: // killed, or timed out
	default:
		r.ExitCode = &code
		if code == 0 {
			r.State = CheckPassed
		}
	}
	return r
}

// ExitCode returns the exit code in the output of a Shell call. It reports false
// if the command did not exit by itself.
func ExitCode(output json.RawMessage) (code int, exited bool) {
	var out struct {
		Success *struct {
			ExitCode int `json:"exitCode"`
		} `json:"success"`
	}
	if json.Unmarshal(output, &out) != nil || out.Success == nil {
		return 0, false
	}
	return out.Success.ExitCode, true
}

// tail returns the last limit bytes of a text, or fewer to begin at the start of a line.
func tail(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if i := strings.IndexByte(text, '\n'); i >= 0 && i < len(text)/2 {
		return text[i+1:]
	}
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}

// checkCall returns the call that runs a check.
func checkCall(p PlannedCheck) conversation.ToolCall {
	return conversation.ToolCall{ID: p.CallID, Name: "Shell", Args: p.Args}
}
