package approvals

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/policy/permit"
)

// Review decides which tool calls need approval. Its methods are safe for
// concurrent use.
type Review interface {
	// ModeOf returns the agent's run mode.
	ModeOf(ctx context.Context, a agent.Agent) (permit.Mode, error)
	// CheckEntries returns nil if the entries would allow the call that the
	// approval is about, and otherwise the reason why not. If always is true,
	// the entries are for the permissions.json of the agent's owner.
	CheckEntries(ctx context.Context, a agent.Agent, q agent.Approval, entries []string, always bool) error
	// Allow adds the entries to the permissions.json of the user.
	Allow(ctx context.Context, userID int64, q agent.Approval, entries []string) error
}

// Limits of an answer and of the list of pending approvals.
const (
	maxAnswerWords = 4000 // runes
	maxEntryLength = 4000 // bytes
	maxEntries     = 100
	maxWaiting     = 1000 // agents
)

// ApprovalJSON is an approval in the API's form.
type ApprovalJSON struct {
	_         struct{}       `json:"-" additionalProperties:"true"`
	ID        string         `json:"id"`
	AgentID   string         `json:"agentId"`
	RunID     string         `json:"runId"`
	CallID    string         `json:"callId"`
	Tool      string         `json:"tool" doc:"AskQuestion: the agent asks questions; CreatePlan: it asks you to approve its plan; any other tool: it asks to use it"`
	Subagent  string         `json:"subagent,omitempty" doc:"type and task of the subagent that asks; absent for the agent itself"`
	Subject   string         `json:"subject" doc:"the action: the shell command, the URL, server:tool, or the path; for questions and plans, their topic"`
	Folder    string         `json:"folder,omitempty" doc:"for a shell command, the folder that it runs in, if the call names one"`
	Reason    string         `json:"reason,omitempty" doc:"the agent's reason"`
	Why       string         `json:"why" doc:"which rule requires approval"`
	Entries   []string       `json:"entries" nullable:"false" doc:"rules that allow_agent and allow_always add by default; if empty, it can only be allowed once"`
	Change    string         `json:"change,omitempty" doc:"for a change to a file, its new content, or the removed and added lines; for a pull request, its description; for a plan, the whole plan as Markdown"`
	Questions []questionJSON `json:"questions,omitempty" nullable:"false" doc:"for AskQuestion"`
	AskedAt   time.Time      `json:"askedAt"`
	Until     *time.Time     `json:"until,omitempty" doc:"when it is denied automatically, or a question is left to the agent; absent is never"`
	Hidden    bool           `json:"hidden,omitempty" doc:"the team hides summaries in lists: GET /v1/agents/{id}/approvals has the details"`
}

type listApprovalsResponseJSON struct {
	_     struct{}       `json:"-" additionalProperties:"true"`
	Items []ApprovalJSON `json:"items" nullable:"false"`
}

type answerRequestJSON struct {
	_        struct{}     `json:"-" additionalProperties:"true"`
	Decision string       `json:"decision" enum:"allow_once,allow_agent,allow_always,deny,answer" doc:"for questions, answer, or deny to let the agent decide; for a plan, allow_once or deny"`
	Message  string       `json:"message,omitempty" maxLength:"4000" doc:"message to the agent, with deny or answer"`
	Answers  []answerJSON `json:"answers,omitempty" maxItems:"10" nullable:"false" doc:"with answer: answers to some or all of the questions"`
	Entries  []string     `json:"entries,omitempty" maxItems:"100" nullable:"false" doc:"rules to add; default those of the request"`
}

// ApprovalOf returns an approval of the agent in the API's form.
func ApprovalOf(agentID string, q agent.Approval) ApprovalJSON {
	out := ApprovalJSON{
		ID: q.ID, AgentID: agentID, RunID: q.RunID, CallID: q.CallID, Tool: q.Tool, Subagent: q.By, Subject: q.Subject, Folder: q.Folder, Reason: q.Reason, Why: q.Why,
		Entries: append([]string{}, q.Entries...), Change: q.Change, Questions: questionsOf(q.Questions), AskedAt: rest.Stamp(q.AskedAt),
	}
	if !q.Until.IsZero() {
		until := rest.Stamp(q.Until)
		out.Until = &until
	}
	return out
}

// Of returns the pending approvals of an agent in the API's form.
func Of(a agent.Agent) []ApprovalJSON {
	out := []ApprovalJSON{}
	for _, q := range a.Approvals {
		out = append(out, ApprovalOf(a.ID, q))
	}
	return out
}

// hide removes all fields of the approval except those that identify it.
func (q *ApprovalJSON) hide() {
	*q = ApprovalJSON{
		ID: q.ID, AgentID: q.AgentID, RunID: q.RunID, CallID: q.CallID, Tool: q.Tool, Entries: []string{}, AskedAt: q.AskedAt, Until: q.Until, Hidden: true,
	}
}

// listApprovals lists all requests that wait for the caller, the oldest first.
func (s *API) listApprovals(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	agents, err := s.Agents.WaitingAgents(r.Context(), who.UserID, maxWaiting)
	if err != nil {
		return err
	}
	settings, err := store.Settings(r.Context(), s.Rules)
	if err != nil {
		return err
	}
	out := listApprovalsResponseJSON{Items: []ApprovalJSON{}}
	for _, a := range agents {
		items := Of(a)
		if settings.At(a.CreatedAt).HideSummary {
			for i := range items {
				items[i].hide()
			}
		}
		out.Items = append(out.Items, items...)
	}
	slices.SortStableFunc(out.Items, func(a, b ApprovalJSON) int { return a.AskedAt.Compare(b.AskedAt) })
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *API) listAgentApprovals(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, listApprovalsResponseJSON{Items: Of(a)})
}

// answerApproval answers a request. The first answer wins: an answer is
// journaled only if the request is still pending. Later callers get an error
// with the winning answer. Only a user who repeats that answer gets success
// again, because the client may have missed the first reply.
func (s *API) answerApproval(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	ctx, id := r.Context(), r.PathValue("id")
	if _, err := s.Agent(ctx, who, id); err != nil {
		return err
	}
	var in answerRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	if _, err := rest.IdempotencyKey(r); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	answer := &agent.ApprovalAnswered{ApprovalID: r.PathValue("approvalId"), Decision: agent.Decision(in.Decision), Message: strings.TrimSpace(in.Message), Answers: in.answers(), Entries: in.Entries, UserID: who.UserID}
	var asked agent.Approval
	err := s.Decide(ctx, who, id, func(a agent.Agent) ([]agent.Event, error) {
		var open bool
		if asked, open = a.Open(answer.ApprovalID); !open {
			return nil, s.answered(ctx, a, answer)
		}
		if err := checkAnswer(asked, answer); err != nil {
			return nil, err
		}
		var err error
		if answer.Entries, err = s.entriesFor(ctx, a, asked, answer.Decision, in.Entries); err != nil {
			return nil, err
		}
		return []agent.Event{{RunID: asked.RunID, Body: answer}}, nil
	})
	if repeat, ok := errors.AsType[repeatedError](err); ok {
		asked, answer.Entries, err = repeat.asked, repeat.entries, nil
	}
	if err != nil {
		return err
	}
	if answer.Decision == agent.AllowAlways {
		// Change the rules only after the answer is journaled, so that an
		// answer that lost the race changes no rules. If the server dies in
		// between, a repetition of the same answer changes them.
		if err := s.Review.Allow(context.WithoutCancel(ctx), who.UserID, asked, answer.Entries); err != nil {
			return fault.Conflict("the call was allowed, but your permissions.json could not be changed: %v", err).Named("permissions_unchanged").
				Hint("fix it with `aloft rules set permissions.json`")
		}
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: answer.ApprovalID})
}

func (in *answerRequestJSON) check() error {
	if !slices.Contains(agent.Decisions, agent.Decision(in.Decision)) {
		return fault.Invalid("must be one of allow_once, allow_agent, allow_always, deny, answer").At("decision")
	}
	if n := utf8.RuneCountInString(in.Message); n > maxAnswerWords {
		return fault.Invalid("has %d characters; the limit is %d", n, maxAnswerWords).At("message")
	}
	if len(in.Entries) > maxEntries {
		return fault.Invalid("has %d entries; the limit is %d", len(in.Entries), maxEntries).At("entries")
	}
	for i, e := range in.Entries {
		if strings.TrimSpace(e) == "" || len(e) > maxEntryLength {
			return fault.Invalid("must have 1 to %d bytes", maxEntryLength).At(fmt.Sprintf("entries[%d]", i))
		}
	}
	return nil
}

// entriesFor returns the rules that the decision adds.
func (s *API) entriesFor(ctx context.Context, a agent.Agent, asked agent.Approval, d agent.Decision, entries []string) ([]string, error) {
	if d != agent.AllowAgent && d != agent.AllowAlways {
		if len(entries) > 0 {
			return nil, fault.Invalid("can only be used with allow_agent and allow_always").At("entries")
		}
		return nil, nil
	}
	if entries == nil {
		entries = asked.Entries
	}
	if err := s.Review.CheckEntries(ctx, a, asked, entries, d == agent.AllowAlways); err != nil {
		f := fault.Invalid("%v", err).At("entries")
		if d == agent.AllowAlways {
			return nil, f.Hint("allow it for this agent, or once")
		}
		return nil, f.Hint("allow it once")
	}
	return entries, nil
}

// repeatedError means that the same person has already given the same answer.
type repeatedError struct {
	asked   agent.Approval
	entries []string
}

func (repeatedError) Error() string { return "already answered in the same way" }

// answered returns an error that says who answered the request, and how.
func (s *API) answered(ctx context.Context, a agent.Agent, answer *agent.ApprovalAnswered) error {
	var asked *agent.Approval
	for after := int64(0); ; {
		events, err := s.Journal.Read(ctx, a.ID, after, rest.Batch)
		if err != nil {
			return fmt.Errorf("read the journal of %s: %w", a.ID, err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			after = e.Seq
			switch b := e.Body.(type) {
			case *agent.ApprovalAsked:
				if b.Approval.ID == answer.ApprovalID {
					asked = &b.Approval
				}
			case *agent.ApprovalAnswered:
				if b.ApprovalID != answer.ApprovalID || asked == nil {
					continue
				}
				if b.UserID == answer.UserID && b.Decision == answer.Decision && b.Message == answer.Message &&
					reflect.DeepEqual(b.Answers, answer.Answers) && (answer.Entries == nil || slices.Equal(b.Entries, answer.Entries)) {
					return repeatedError{*asked, b.Entries}
				}
				return fault.Conflict("already answered by %s at %s: %s", s.NameOf(ctx, b.UserID), e.Time.UTC().Format(time.RFC3339), b.Decision).Named("approval_answered")
			}
		}
	}
	if asked == nil {
		return fault.NotFound("no approval %s of this agent", fault.Quoted(answer.ApprovalID))
	}
	return fault.Conflict("the run has ended, so the request is no longer pending").Named("approval_closed").
		Hint("send a follow-up to continue the agent")
}
