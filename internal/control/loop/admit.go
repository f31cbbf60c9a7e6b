package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"aloft/internal/agent"
	loophook "aloft/internal/control/loop/hook"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/review"
	controltool "aloft/internal/control/tool"
	"aloft/internal/conversation"
	"aloft/internal/hook"
	"aloft/internal/policy/permit"
	"aloft/internal/policy/sandbox"
	"aloft/internal/tool"
)

// Reviewer decides which calls may run. [review.Reviewer] implements it. Its
// methods are safe for concurrent use.
type Reviewer interface {
	Check(ctx context.Context, s *agent.State, c conversation.ToolCall, enforced bool) (review.Verdict, error)
	Classify(ctx context.Context, s *agent.State, c conversation.ToolCall, v review.Verdict) agent.Classified
	SandboxPolicy(ctx context.Context, a agent.Agent) (sandbox.Policy, error)
	// Guards reports whether the machine must check the call's path as well.
	Guards(ctx context.Context, a agent.Agent, c conversation.ToolCall) (bool, error)
	// GuardsLine returns the checks that the machine must do before it runs a
	// shell command that an allow list allows outside of the sandbox, or nil
	// for no checks.
	GuardsLine(ctx context.Context, s *agent.State, c conversation.ToolCall) (*conversation.Guard, error)
	// Until returns the time at which an approval that is requested now expires
	// and counts as denied. The zero time means never.
	Until(ctx context.Context, a agent.Agent) (time.Time, error)
}

// admit decides whether a call may be sent to the machine, and how. It asks the
// project's hooks first, then the run mode, then the classifier if needed, then
// a person. The decision is in c.Judged; it is journaled when the call is sent
// or refused, see [thread.sent]. admit journals the result of a refused call.
func (t *thread) admit(ctx context.Context, c agent.Call) (agent.Call, bool, error) {
	switch {
	case c.Sent && c.Judged == nil: // sent by an older server, without a decision
		return c, true, nil
	case c.Judged == nil && c.Approval == nil:
		ask, err := t.judge(ctx, &c)
		if err == nil && ask != nil {
			err = ask()
		}
		if err != nil {
			return c, false, err
		}
	}
	if c.Judged == nil {
		if err := t.await(ctx, &c); err != nil {
			return c, false, err
		}
		t.applyAnswer(&c)
	}
	if c.Judged.Treatment == agent.CallRefused {
		if err := t.record(ctx, t.unjournaled(c)...); err != nil {
			return c, false, err
		}
		result := tool.Failed("%s", c.Judged.Message)
		if err := t.after(ctx, c, &result, 0); err != nil && !errors.Is(err, remote.ErrLost) {
			return c, false, err
		}
		return c, false, t.recordResult(ctx, c.ID, result, 0)
	}
	return c, true, nil
}

// judge decides about a call by hooks and rules, and sets c.Judged. If hooks
// and rules do not decide, it returns the function ask, which asks the
// classifier or a person. If ask asks a person, it sets c.Approval instead of
// c.Judged.
func (t *thread) judge(ctx context.Context, c *agent.Call) (ask func() error, err error) {
	outcome, err := t.before(ctx, c)
	if err != nil {
		return nil, err
	}
	if outcome.Permission == hook.Deny {
		t.setJudged(c, agent.CallRefused, "hook", outcome.UserMessage, loophook.Refusal(outcome))
		return nil, nil
	}
	if outcome.UpdatedInput != nil && t.task != agent.ChecksThread { // do not change the command of a check: if a hook wants to, refuse the call
		c.Args = outcome.UpdatedInput
	}
	if c.Name == agent.SwitchTool {
		return t.judgeModeSwitch(ctx, c), nil
	}
	if t.state().Mode == agent.ModePlan && !t.onlyReads(*c) {
		t.judgeInPlanMode(c)
		return nil, nil
	}
	if t.Review == nil {
		t.setJudged(c, agent.CallRun, "policy", "", "")
		return nil, nil
	}
	if check := t.state().CheckOf(c.ID); check != nil && check.Source == agent.CheckOfRequest && outcome.Permission != hook.Ask {
		// A check runs outside of the sandbox, like a command on an allow list,
		// but only if no sandboxed command could have changed the program that
		// the check starts.
		t.setJudged(c, agent.CallRun, "policy", "a check requested with the run", "")
		return nil, nil
	}
	v, err := t.Review.Check(ctx, t.state(), c.ToolCall, t.machine.Enforced())
	if err != nil {
		return nil, err
	}
	if outcome.Permission == hook.Ask && (v.Treatment == permit.Run || v.Treatment == permit.Sandboxed) {
		v.Treatment, v.Why = permit.Ask, "a hook requires approval: "+outcome.UserMessage
	}
	switch v.Treatment {
	case permit.Run:
		t.setJudged(c, agent.CallRun, "policy", v.Why, "")
		return nil, nil
	case permit.Sandboxed:
		t.setJudged(c, agent.CallSandboxed, "policy", v.Why, "")
		return nil, nil
	case permit.Classify:
		return func() error { return t.classify(ctx, c, v) }, nil
	}
	return func() error { return t.question(ctx, c, v) }, nil
}

// maxRefused is how many calls the classifier may refuse in a run before all
// further calls go to a person, so that an agent cannot try variants of a call
// until one passes.
const maxRefused = 10

// classify asks the classifier about a call. If the classifier has refused the
// same call before in this run, classify asks a person instead.
func (t *thread) classify(ctx context.Context, c *agent.Call, v review.Verdict) error {
	s := t.state()
	if slices.Contains(s.Refused, agent.RefusedCall{Tool: c.Name, Args: string(c.Args)}) {
		v.Why = "the classifier refused this call before, and the agent repeats it"
		return t.question(ctx, c, v)
	}
	if n := len(s.Refused); n >= maxRefused {
		v.Why = fmt.Sprintf("%d calls of this run were already refused", n)
		return t.question(ctx, c, v)
	}
	verdict := t.Review.Classify(ctx, s, c.ToolCall, v)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := t.record(ctx, &verdict); err != nil {
		return err
	}
	switch verdict.Verdict {
	case review.VerdictAllow:
		t.setJudged(c, agent.CallRun, "classifier", verdict.Reason, "")
		return nil
	case review.VerdictBlock:
		t.setJudged(c, agent.CallRefused, "classifier", verdict.Reason, "Not run. A reviewer judged: "+verdict.Reason+
			" Do what the task needs in another way. If there is no other way, and the user wants this, repeat exactly the same call: then the user is asked.")
		return nil
	}
	v.Why = "the classifier leaves the decision to you: " + verdict.Reason
	if verdict.Failure != "" {
		v.Why = "the classifier gave no verdict: " + verdict.Failure
	}
	return t.question(ctx, c, v)
}

// setJudged sets c.Judged to the decision, without journaling it.
func (t *thread) setJudged(c *agent.Call, treatment, by, why, message string) {
	c.Judged = &agent.CallJudged{CallID: c.ID, Treatment: treatment, By: by, Why: why, Message: message}
	if known, ok := t.rec.Call(c.ID); !ok || string(known.Args) != string(c.Args) {
		c.Judged.Args = c.Args
	}
}

// unjournaled returns the event with the decision about a call, or nothing if
// the journal contains it already.
func (t *thread) unjournaled(c agent.Call) []agent.Body {
	if known, ok := t.rec.Call(c.ID); c.Judged == nil || ok && known.Judged != nil {
		return nil
	}
	return []agent.Body{c.Judged}
}

// sentEvents returns the events that record that a call was sent, to which boot
// of the machine, and the decision about the call. They are journaled in one
// append, before the call is sent.
func (t *thread) sentEvents(c agent.Call, bootID string) []agent.Body {
	return append(t.unjournaled(c), &agent.CallSent{CallID: c.ID, BootID: bootID, Unhooked: c.Unhooked})
}

// judgeInPlanMode decides about a call that may change something while the agent is in
// plan mode.
func (t *thread) judgeInPlanMode(c *agent.Call) {
	const why = "plan mode"
	switch {
	case c.Name == "Shell" && t.machine.Enforced():
		t.setJudged(c, agent.CallSandboxed, "policy", why, "")
	case c.Name == "Shell":
		t.setJudged(c, agent.CallRefused, "policy", why, "Not run: plan mode allows no changes, and this machine cannot run commands read-only. Use Read, LS, Glob and Grep.")
	default:
		t.setJudged(c, agent.CallRefused, "policy", why, "Not run: plan mode allows no changes. Make a plan with CreatePlan; when the user has approved it you can do this.")
	}
}

// judgeModeSwitch decides about a call that changes the agent's mode. Only a person
// can end plan mode.
func (t *thread) judgeModeSwitch(ctx context.Context, c *agent.Call) (ask func() error) {
	in, wrong := controltool.ReadSwitch(c.Args)
	if wrong == nil && in.Target == agent.ModeAgent && t.state().Mode == agent.ModePlan {
		return func() error {
			return t.askPerson(ctx, c, agent.Approval{Subject: "end plan mode", Reason: in.Explanation, Why: "the agent makes no changes until you allow it"})
		}
	}
	t.setJudged(c, agent.CallRun, "policy", "", "")
	return nil
}

// question asks a person about a call. It refuses a call that is too long to be
// shown completely.
func (t *thread) question(ctx context.Context, c *agent.Call, v review.Verdict) error {
	if v.TooLong {
		t.setJudged(c, agent.CallRefused, "policy", "too long for a person to review",
			"Not run: this call needs a person's approval, and it is too long to be shown completely. Do it in smaller steps.")
		return nil
	}
	if v.Subject == "" { // a call that only a hook wants approved
		v.Subject = string(c.Args)
	}
	return t.askPerson(ctx, c, agent.Approval{Subject: v.Subject, Reason: v.Reason, Folder: v.Folder, Why: v.Why, Entries: v.Entries, Change: v.Change})
}

// askPerson completes an approval request and journals it.
func (t *thread) askPerson(ctx context.Context, c *agent.Call, q agent.Approval, before ...agent.Body) error {
	if sub := t.state().Subagent(t.task); t.task != "" && sub != nil {
		q.Task, q.By = t.task, sub.Type+": "+sub.Description
	}
	if t.Review != nil {
		var err error
		if q.Until, err = t.Review.Until(ctx, t.state().Agent); err != nil {
			return err
		}
	}
	q.ID, q.RunID, q.CallID, q.Tool, q.AskedAt = agent.NewApprovalID(), t.rec.RunID(), c.ID, c.Name, time.Now().UTC()
	c.Approval = &q
	asked := &agent.ApprovalAsked{Approval: q}
	if !q.IsQuestion() {
		asked.Args = c.Args
	}
	return t.record(ctx, append(before, asked)...)
}

// await waits for a person's answer, or until the request expires.
func (t *thread) await(ctx context.Context, c *agent.Call) error {
	late := ctx
	if !c.Approval.Until.IsZero() {
		var cancel context.CancelFunc
		late, cancel = context.WithDeadline(ctx, c.Approval.Until)
		defer cancel()
	}
	for c.Answer == nil {
		answer, head, err := t.rec.AnswerTo(ctx, c.ID)
		if err != nil {
			return err
		}
		if answer != nil {
			c.Answer = answer
			break
		}
		err = t.rec.Wait(late, head)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if late.Err() != nil {
			denied := &agent.ApprovalAnswered{ApprovalID: c.Approval.ID, Decision: agent.Deny, Message: "nobody answered in time"}
			c.Answer, err = t.rec.Answer(ctx, c.ID, denied)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applyAnswer records a person's answer as the decision about a call.
func (t *thread) applyAnswer(c *agent.Call) {
	if c.Answer.Decision.Allows() {
		t.setJudged(c, agent.CallRun, "person", "", "")
		return
	}
	message := "Not run: the user denied it."
	if c.Answer.Message != "" {
		message = "Not run: the user denied it, and says: " + c.Answer.Message
	}
	t.setJudged(c, agent.CallRefused, "person", c.Answer.Message, message)
}
