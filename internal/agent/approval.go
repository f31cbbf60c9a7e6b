package agent

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"aloft/internal/conversation"
)

// An Approval is a request that waits for a person: to allow a call or, if
// [Approval.IsQuestion] returns true, to answer the agent's own question. It is stored
// in the journal, so it survives restarts and needs no resources while it waits.
type Approval struct {
	ID      string   `json:"id"`
	RunID   string   `json:"runId"`
	CallID  string   `json:"callId"`
	Task    string   `json:"task,omitempty"`     // id of the call whose subagent asks; "" for the agent itself
	By      string   `json:"subagent,omitempty"` // that subagent's type and task
	Tool    string   `json:"tool"`
	Subject string   `json:"subject"`          // the command, URL, server:tool, path or question
	Folder  string   `json:"folder,omitempty"` // for a shell command: where it runs, if the call says so
	Reason  string   `json:"reason,omitempty"`
	Why     string   `json:"why"` // which rule requires approval
	Entries []string `json:"entries,omitempty"`
	Change  string   `json:"change,omitempty"` // for a file change: the new content; for a pull request: its description; for a plan: the whole plan as Markdown
	// Questions are the agent's questions; nil for a call or a plan.
	Questions []Question `json:"questions,omitempty"`
	AskedAt   time.Time  `json:"askedAt"`
	// Until is when the request expires and counts as denied; zero means never.
	Until time.Time `json:"until,omitzero"`
}

// A Decision is the answer to an approval request.
type Decision string

// Decisions on an approval request.
const (
	AllowOnce   Decision = "allow_once"   // for a plan: it is approved
	AllowAgent  Decision = "allow_agent"  // also allows the entries for this agent
	AllowAlways Decision = "allow_always" // also allows the entries for all agents of the user
	Deny        Decision = "deny"         // for the agent's own question: the agent is to decide
	Answered    Decision = "answer"       // only for the agent's own question
)

// Decisions lists all decisions.
var Decisions = []Decision{AllowOnce, AllowAgent, AllowAlways, Deny, Answered}

// Allows reports whether the decision lets the call run.
func (d Decision) Allows() bool { return d == AllowOnce || d == AllowAgent || d == AllowAlways }

// Treatments of a call in [CallJudged]: the treatments of package permit, and
// CallRefused, which means that the call does not run and the model is told why.
const (
	CallRun       = "run"
	CallSandboxed = "sandboxed"
	CallRefused   = "refused"
)

type (
	// CallJudged records the decision about a call. The decision precedes the sending of
	// the call and is final: no call is judged twice.
	CallJudged struct {
		CallID    string `json:"callId"`
		Treatment string `json:"treatment"`
		By        string `json:"by"` // who decided: policy, classifier, hook or person
		Why       string `json:"why,omitempty"`
		// Message is the text for the model about a refused call.
		Message string `json:"message,omitempty"`
		// Args are the call's arguments if a hook has changed them.
		Args json.RawMessage `json:"args,omitempty"`
	}
	// Classified records the classifier's verdict on a call.
	Classified struct {
		CallID     string             `json:"callId"`
		Verdict    string             `json:"verdict"` // allow, block or ask
		Reason     string             `json:"reason,omitempty"`
		Model      string             `json:"model"`
		DurationMS int64              `json:"durationMs"`
		Usage      conversation.Usage `json:"usage"`
		Failure    string             `json:"failure,omitempty"` // why the classifier gave no verdict; in that case Verdict is ask
	}
	// HookRan records the outcome of a project hook.
	HookRan struct {
		Command    string `json:"command"`
		File       string `json:"file"`
		Exit       int    `json:"exit"`
		DurationMS int64  `json:"durationMs"`
		Failure    string `json:"failure,omitempty"`
		Message    string `json:"message,omitempty"` // messages for the user from all hooks of the event; only the last hook's record has them
	}
	// Submitted records that the hooks have seen the run's prompt.
	Submitted struct{}
	// ApprovalAsked records that a call waits for a person's approval.
	ApprovalAsked struct {
		Approval Approval        `json:"approval"`
		Args     json.RawMessage `json:"args,omitempty"` // as changed by hooks
	}
	// ApprovalAnswered records the answer to a request. Only the first answer
	// counts.
	ApprovalAnswered struct {
		ApprovalID string   `json:"approvalId"`
		Decision   Decision `json:"decision"`
		Message    string   `json:"message,omitempty"` // message for the agent
		Entries    []string `json:"entries,omitempty"` // entries that are allowed from now on
		Answers    []Answer `json:"answers,omitempty"` // answers to the agent's questions
		UserID     int64    `json:"userId,omitempty"`  // who answered; 0 if the request expired
	}
)

var _ = register(&HookRan{}, &Submitted{}, &CallJudged{}, &Classified{}, &ApprovalAsked{}, &ApprovalAnswered{})

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

// NewApprovalID returns a fresh approval id, apr-<uuid>.
func NewApprovalID() string { return "apr-" + uuid.NewString() }

// AskedBy reports whether the agent waits for an answer to a request made at t
// or earlier. An archived agent does not wait.
func (a Agent) AskedBy(t time.Time) bool {
	return !a.Archived && slices.ContainsFunc(a.Approvals, func(q Approval) bool { return !q.AskedAt.After(t) })
}

// Grant is a rule that a person has allowed for an agent permanently.
type Grant struct {
	Tool  string
	Entry string
}

// approve folds approval events into the summary.
func (a *Agent) approve(e Event) {
	switch b := e.Body.(type) {
	case *ApprovalAsked:
		a.Approvals = append(slices.Clone(a.Approvals), b.Approval)
	case *ApprovalAnswered:
		a.Approvals = slices.DeleteFunc(slices.Clone(a.Approvals), func(open Approval) bool { return open.ID == b.ApprovalID })
	case *RunEnded:
		a.Approvals = nil // the run has ended
	}
}

// Open returns the pending approval request with that id.
func (a *Agent) Open(approvalID string) (Approval, bool) {
	i := slices.IndexFunc(a.Approvals, func(p Approval) bool { return p.ID == approvalID })
	if i < 0 {
		return Approval{}, false
	}
	return a.Approvals[i], true
}

// judged folds decisions about calls.
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
		s.Refused, s.Submitted = nil, len(b.Prompt.Blocks) == 0 // a new prompt must be checked by the hooks
	case *Submitted:
		s.Submitted = true
	}
}

// asker returns the call whose approval request has that id, or nil if the call already
// has its result.
func (s *State) asker(approvalID string) *Call {
	threads := []*Thread{&s.Thread, &s.Checking.Thread}
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

// RefusedCall is a call that was refused in this run. If the model repeats the call, a
// person is asked.
type RefusedCall struct {
	Tool string
	Args string
}
