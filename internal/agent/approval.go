package agent

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"aloft/internal/conversation"
)

// An Approval is a question that waits for a person: whether a call may run, or,
// where [Approval.Own] says so, what the agent itself asks. It waits in the
// journal, over restarts, at no cost.
type Approval struct {
	ID      string   `json:"id"`
	RunID   string   `json:"runId"`
	CallID  string   `json:"callId"`
	Task    string   `json:"task,omitempty"`     // the call at which the subagent works whose call waits
	By      string   `json:"subagent,omitempty"` // that subagent: its type, and what it works at
	Tool    string   `json:"tool"`
	Subject string   `json:"subject"`          // the line, the URL, server:tool, the path, or what the agent asks
	Folder  string   `json:"folder,omitempty"` // of a shell line: where it runs, if it says so
	Reason  string   `json:"reason,omitempty"`
	Why     string   `json:"why"` // which rule asks
	Entries []string `json:"entries,omitempty"`
	Change  string   `json:"change,omitempty"` // of a change to a file: what would stand there; of a pull request: its description; of a plan: all of it, as Markdown
	// Questions are what the agent asks; nil where a call or a plan waits.
	Questions []Question `json:"questions,omitempty"`
	AskedAt   time.Time  `json:"askedAt"`
	// Until is when it counts as denied; zero is never.
	Until time.Time `json:"until,omitzero"`
}

// A Decision is the answer to an approval.
type Decision string

// The decisions.
const (
	AllowOnce   Decision = "allow_once"   // of a plan: it is to be carried out
	AllowAgent  Decision = "allow_agent"  // and calls of the same entries by this agent
	AllowAlways Decision = "allow_always" // and those of all agents of the person
	Deny        Decision = "deny"         // of the agent's own question: it is to decide by itself
	Answered    Decision = "answer"       // of the agent's own question
)

// Decisions are all decisions.
var Decisions = []Decision{AllowOnce, AllowAgent, AllowAlways, Deny, Answered}

// Allows reports whether the call may run.
func (d Decision) Allows() bool { return d == AllowOnce || d == AllowAgent || d == AllowAlways }

// Treatments of a call, as [CallJudged] has them. They are those of package
// permit, and Refused: it is not run, and the model is told why.
const (
	CallRun       = "run"
	CallSandboxed = "sandboxed"
	CallRefused   = "refused"
)

type (
	// CallJudged says how a call is treated. It comes before the call is sent, and
	// stands for the call whatever happens after: nothing is judged twice.
	CallJudged struct {
		CallID    string `json:"callId"`
		Treatment string `json:"treatment"`
		By        string `json:"by"` // policy, classifier, hook or person
		Why       string `json:"why,omitempty"`
		// Message is what the model is told of a refused call.
		Message string `json:"message,omitempty"`
		// Args are the call's arguments where a hook has changed them.
		Args json.RawMessage `json:"args,omitempty"`
	}
	// Classified is the verdict of the classifier on a call.
	Classified struct {
		CallID     string             `json:"callId"`
		Verdict    string             `json:"verdict"` // allow, block or ask
		Reason     string             `json:"reason,omitempty"`
		Model      string             `json:"model"`
		DurationMS int64              `json:"durationMs"`
		Usage      conversation.Usage `json:"usage"`
		Failure    string             `json:"failure,omitempty"` // why there was no verdict; it is ask then
	}
	// HookRan says how a hook of the project went.
	HookRan struct {
		Command    string `json:"command"`
		File       string `json:"file"`
		Exit       int    `json:"exit"`
		DurationMS int64  `json:"durationMs"`
		Failure    string `json:"failure,omitempty"`
		Message    string `json:"message,omitempty"` // for the user, of all hooks of the event; with the last of them
	}
	// Submitted says that the hooks have seen the run's prompt.
	Submitted struct{}
	// ApprovalAsked puts a call to a person.
	ApprovalAsked struct {
		Approval Approval        `json:"approval"`
		Args     json.RawMessage `json:"args,omitempty"` // as hooks have left them
	}
	// ApprovalAnswered is the answer; the first counts.
	ApprovalAnswered struct {
		ApprovalID string   `json:"approvalId"`
		Decision   Decision `json:"decision"`
		Message    string   `json:"message,omitempty"` // for the agent to read
		Entries    []string `json:"entries,omitempty"` // that are allowed from now on
		Answers    []Answer `json:"answers,omitempty"` // to its questions
		UserID     int64    `json:"userId,omitempty"`  // 0 where time decided
	}
)

// Kind implements [Body].
func (*CallJudged) Kind() string { return "call.judged" }

// Kind implements [Body].
func (*Classified) Kind() string { return "call.classified" }

// Kind implements [Body].
func (*HookRan) Kind() string { return "hook.ran" }

// Kind implements [Body].
func (*Submitted) Kind() string { return "prompt.submitted" }

// Kind implements [Body].
func (*ApprovalAsked) Kind() string { return "approval.asked" }

// Kind implements [Body].
func (*ApprovalAnswered) Kind() string { return "approval.answered" }

// NewApprovalID returns a fresh id of an approval, apr-<uuid>.
func NewApprovalID() string { return "apr-" + uuid.NewString() }

// AskedBy reports whether the agent waits for the answer to a question that was
// asked at t or before. An archived agent waits for none.
func (a Agent) AskedBy(t time.Time) bool {
	return !a.Archived && slices.ContainsFunc(a.Approvals, func(q Approval) bool { return !q.AskedAt.After(t) })
}

// Grant is what a person has allowed an agent for good.
type Grant struct {
	Tool  string
	Entry string
}

// approve folds what approvals do to what a list shows.
func (a *Agent) approve(e Event) {
	switch b := e.Body.(type) {
	case *ApprovalAsked:
		a.Approvals = append(slices.Clone(a.Approvals), b.Approval)
	case *ApprovalAnswered:
		a.Approvals = slices.DeleteFunc(slices.Clone(a.Approvals), func(open Approval) bool { return open.ID == b.ApprovalID })
	case *RunEnded:
		a.Approvals = nil // nobody waits for an answer any more
	}
}

// Open returns the approval of that id that waits.
func (a *Agent) Open(approvalID string) (Approval, bool) {
	i := slices.IndexFunc(a.Approvals, func(p Approval) bool { return p.ID == approvalID })
	if i < 0 {
		return Approval{}, false
	}
	return a.Approvals[i], true
}

// judged folds what is decided of calls.
func (s *State) judged(e Event) {
	switch b := e.Inner().(type) {
	case *CallJudged:
		if c := s.Find(b.CallID); c != nil && b.Treatment == CallRefused {
			args := c.Args
			if len(b.Args) > 0 {
				args = b.Args
			}
			s.Refused = append(s.Refused, RefusedCall{c.Name, string(args)})
		}
	case *ApprovalAsked:
		if c := s.Find(b.Approval.CallID); c != nil {
			c.Approval = &b.Approval
			if len(b.Args) > 0 {
				c.Args = b.Args
			}
		}
	case *ApprovalAnswered:
		c := s.asker(b.ApprovalID)
		if c == nil || c.Answer != nil {
			break
		}
		c.Answer = b
		if c.Name == PlanTool && b.Decision.Allows() {
			s.Mode = ModeAgent
		}
		if b.Decision == AllowAgent || b.Decision == AllowAlways {
			for _, entry := range b.Entries {
				s.Granted = append(s.Granted, Grant{c.Name, entry})
			}
		}
	case *RunCreated:
		s.Refused, s.Submitted = nil, len(b.Prompt.Blocks) == 0 // hooks have seen what is asked again
	case *Submitted:
		s.Submitted = true
	}
}

// asker is the call that put the question of that id; nil if it has its result.
func (s *State) asker(approvalID string) *Call {
	threads := []*Thread{&s.Thread}
	for i := range s.Subagents {
		threads = append(threads, &s.Subagents[i].Thread)
	}
	for _, t := range threads {
		for i := range t.Calls {
			if c := &t.Calls[i]; c.Approval != nil && c.Approval.ID == approvalID {
				return c
			}
		}
	}
	return nil
}

// RefusedCall is a call that was refused in this run: if the model insists on
// it, a person is asked.
type RefusedCall struct {
	Tool string
	Args string
}
