package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/review"
	controltool "aloft/internal/control/tool"
	"aloft/internal/conversation"
	"aloft/internal/policy/cage"
	"aloft/internal/policy/permit"
	"aloft/internal/tool"
)

// Reviewer decides how calls are treated. [review.Reviewer] is one. Its methods
// are safe for concurrent use.
type Reviewer interface {
	Check(ctx context.Context, s *agent.State, c conversation.ToolCall, enforced bool) (review.Verdict, error)
	Classify(ctx context.Context, s *agent.State, c conversation.ToolCall, v review.Verdict) agent.Classified
	Cage(ctx context.Context, a agent.Agent) (cage.Policy, error)
	// Guards reports whether the machine is to judge the call's path again.
	Guards(ctx context.Context, a agent.Agent, c conversation.ToolCall) (bool, error)
	// Until is when a question that is asked now counts as denied; zero is never.
	Until(ctx context.Context, a agent.Agent) (time.Time, error)
}

// admit decides whether a call is sent to the machine, and as what. The
// project's hooks are asked first, then the run mode, then where need be the
// classifier, then a person. What is decided is journaled, so that it is
// decided once. A call that is not admitted has its result.
func (t *talk) admit(ctx context.Context, c agent.Call) (agent.Call, bool, error) {
	switch {
	case c.Sent && c.Judged == nil: // by a server that judged nothing
		return c, true, nil
	case c.Judged == nil && c.Approval == nil:
		if err := t.judge(ctx, &c); err != nil {
			return c, false, err
		}
	}
	if c.Judged == nil {
		if err := t.await(ctx, &c); err != nil {
			return c, false, err
		}
		if err := t.heard(ctx, &c); err != nil {
			return c, false, err
		}
	}
	if c.Judged.Treatment == agent.CallRefused {
		result := tool.Failed("%s", c.Judged.Message)
		if err := t.after(ctx, c, &result, 0); err != nil && !errors.Is(err, ErrMachineLost) {
			return c, false, err
		}
		return c, false, t.done(ctx, c.ID, result, 0)
	}
	return c, true, nil
}

// judge decides about a call, or puts it to a person: then c.Approval is set
// and c.Judged is not.
func (t *talk) judge(ctx context.Context, c *agent.Call) error {
	said, err := t.before(ctx, c)
	if err != nil {
		return err
	}
	if said.Permission == hookDeny {
		return t.judged(ctx, c, agent.CallRefused, "hook", said.UserMessage, refusedByHook(said))
	}
	if said.UpdatedInput != nil {
		c.Args = said.UpdatedInput
	}
	if c.Name == agent.SwitchTool {
		return t.switching(ctx, c)
	}
	if t.state().Mode == agent.ModePlan && !t.onlyReads(*c) {
		return t.planning(ctx, c)
	}
	if t.Review == nil {
		return t.judged(ctx, c, agent.CallRun, "policy", "", "")
	}
	v, err := t.Review.Check(ctx, t.state(), c.ToolCall, t.hands.Enforced())
	if err != nil {
		return err
	}
	if said.Permission == hookAsk && (v.Treatment == permit.Run || v.Treatment == permit.Sandboxed) {
		v.Treatment, v.Why = permit.Ask, "a hook asks: "+said.UserMessage
	}
	switch v.Treatment {
	case permit.Run:
		return t.judged(ctx, c, agent.CallRun, "policy", v.Why, "")
	case permit.Sandboxed:
		return t.judged(ctx, c, agent.CallSandboxed, "policy", v.Why, "")
	case permit.Classify:
		return t.classify(ctx, c, v)
	}
	return t.question(ctx, c, v)
}

// maxRefused is after how many refused calls of a run the classifier is asked no
// more: an agent must not try variants of a call until one passes.
const maxRefused = 10

// classify puts a call to the classifier. What it has refused once in this run,
// and the model insists on, is put to a person.
func (t *talk) classify(ctx context.Context, c *agent.Call, v review.Verdict) error {
	s := t.state()
	if slices.Contains(s.Refused, agent.RefusedCall{Tool: c.Name, Args: string(c.Args)}) {
		v.Why = "the classifier has refused it, and the agent insists"
		return t.question(ctx, c, v)
	}
	if n := len(s.Refused); n >= maxRefused {
		v.Why = fmt.Sprintf("%d calls of this run were refused already", n)
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
		return t.judged(ctx, c, agent.CallRun, "classifier", verdict.Reason, "")
	case review.VerdictBlock:
		return t.judged(ctx, c, agent.CallRefused, "classifier", verdict.Reason, "Not run. A reviewer judged: "+verdict.Reason+
			" Take another way to what the task needs. If there is none, and this is what the user wants, make the very same call again: the user is asked then.")
	}
	v.Why = "the classifier leaves it to you: " + verdict.Reason
	if verdict.Failure != "" {
		v.Why = "the classifier gave no verdict: " + verdict.Failure
	}
	return t.question(ctx, c, v)
}

// judged journals what was decided.
func (t *talk) judged(ctx context.Context, c *agent.Call, treatment, by, why, message string) error {
	b := &agent.CallJudged{CallID: c.ID, Treatment: treatment, By: by, Why: why, Message: message}
	if orig := t.rec.argsOf(c.ID); string(orig) != string(c.Args) {
		b.Args = c.Args
	}
	c.Judged = b
	return t.record(ctx, b)
}

// planning judges a call that may change something while there is no plan yet.
func (t *talk) planning(ctx context.Context, c *agent.Call) error {
	const why = "plan mode"
	switch {
	case c.Name == "Shell" && t.hands.Enforced():
		return t.judged(ctx, c, agent.CallSandboxed, "policy", why, "")
	case c.Name == "Shell":
		return t.judged(ctx, c, agent.CallRefused, "policy", why, "Not run: in plan mode nothing is changed, and this machine cannot hold a command to that. Use Read, LS, Glob and Grep.")
	}
	return t.judged(ctx, c, agent.CallRefused, "policy", why, "Not run: in plan mode nothing is changed. Make a plan with CreatePlan; when the user has approved it you can do this.")
}

// switching judges a call to go on in another mode: only a person ends plan mode.
func (t *talk) switching(ctx context.Context, c *agent.Call) error {
	in, wrong := controltool.ReadSwitch(c.Args)
	if wrong == nil && in.Target == agent.ModeAgent && t.state().Mode == agent.ModePlan {
		return t.put(ctx, c, agent.Approval{Subject: "end plan mode", Reason: in.Explanation, Why: "it changes nothing before you allow it"})
	}
	return t.judged(ctx, c, agent.CallRun, "policy", "", "")
}

// question puts a call to a person.
func (t *talk) question(ctx context.Context, c *agent.Call, v review.Verdict) error {
	return t.put(ctx, c, agent.Approval{Subject: v.Subject, Reason: v.Reason, Why: v.Why, Entries: v.Entries, Change: v.Change})
}

// put completes a question about a call, and puts it to a person.
func (t *talk) put(ctx context.Context, c *agent.Call, q agent.Approval, before ...agent.Body) error {
	if sub := t.state().Subagent(t.task); t.task != "" && sub != nil {
		q.Task, q.By = t.task, sub.Type+": "+sub.Description
	}
	if t.Review != nil {
		var err error
		if q.Until, err = t.Review.Until(ctx, t.state().Agent); err != nil {
			return err
		}
	}
	q.ID, q.RunID, q.CallID, q.Tool, q.AskedAt = agent.NewApprovalID(), t.rec.runID, c.ID, c.Name, time.Now().UTC()
	c.Approval = &q
	asked := &agent.ApprovalAsked{Approval: q}
	if !q.Own() {
		asked.Args = c.Args
	}
	return t.record(ctx, append(before, asked)...)
}

// consult works a call by which the agent itself asks a person. What the person
// says is its result.
func (t *talk) consult(ctx context.Context, c agent.Call) error {
	if c.Approval == nil {
		q, err := controltool.Question(c.ToolCall)
		if err != nil {
			return t.done(ctx, c.ID, tool.Failed("%v", err), 0)
		}
		if err := t.put(ctx, &c, q, &agent.CallSent{CallID: c.ID}); err != nil {
			return err
		}
	}
	if err := t.await(ctx, &c); err != nil {
		return err
	}
	return t.done(ctx, c.ID, controltool.Answer(*c.Approval, *c.Answer), time.Since(c.Approval.AskedAt))
}

// await waits for the answer of a person, for as long as it takes.
func (t *talk) await(ctx context.Context, c *agent.Call) error {
	late := ctx
	if !c.Approval.Until.IsZero() {
		var cancel context.CancelFunc
		late, cancel = context.WithDeadline(ctx, c.Approval.Until)
		defer cancel()
	}
	for c.Answer == nil {
		answer, head, err := t.rec.answerTo(ctx, c.ID)
		if err != nil {
			return err
		}
		if answer != nil {
			c.Answer = answer
			break
		}
		err = t.rec.wait(late, head)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if late.Err() != nil {
			denied := &agent.ApprovalAnswered{ApprovalID: c.Approval.ID, Decision: agent.Deny, Message: "nobody answered in time"}
			c.Answer, err = t.rec.answer(ctx, c.ID, denied)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// heard journals what follows for a call from what a person has said.
func (t *talk) heard(ctx context.Context, c *agent.Call) error {
	if c.Answer.Decision.Allows() {
		return t.judged(ctx, c, agent.CallRun, "person", "", "")
	}
	message := "Not run: the user does not allow it."
	if c.Answer.Message != "" {
		message = "Not run: the user does not allow it, and says: " + c.Answer.Message
	}
	return t.judged(ctx, c, agent.CallRefused, "person", c.Answer.Message, message)
}
