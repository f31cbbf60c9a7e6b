package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/compact"
	loophook "aloft/internal/control/loop/hook"
	"aloft/internal/control/loop/offer"
	"aloft/internal/control/loop/remote"
	"aloft/internal/fault"
	"aloft/internal/hook"
	"aloft/internal/policy/permit"
	"aloft/internal/tool"
)

// before runs the hooks that precede a call. If the loop knows of no hooks,
// before sends no request. If hooks exist after all, the machine refuses to
// start the call.
func (t *thread) before(ctx context.Context, c *agent.Call) (hook.Outcome, error) {
	if spec, ok := tool.Lookup(c.Name); ok && spec.Home == tool.Guest && spec.Runner != tool.MCP && !t.hasHooks() {
		var err error
		if c.Unhooked, err = t.machine.Unhooked(ctx, t.rec.Snapshot().Agent); err != nil || c.Unhooked {
			return hook.Outcome{}, err
		}
	}
	server := t.offers.Hook(ctx, t.rec.Snapshot(), c.ToolCall)
	name, input := loophook.Subject(c.ToolCall, server)
	var args struct {
		Command, Path string
		Dir           string `json:"working_directory"`
	}
	_ = json.Unmarshal(c.Args, &args) // arguments that are not an object give an empty map
	folder := cmp.Or(args.Dir, loophook.Workspace)
	events := []hook.Input{{Event: hook.PreToolUse, Subject: name, Fields: map[string]any{
		"tool_name": name, "tool_input": input, "tool_use_id": c.ID, "cwd": folder,
	}}}
	switch c.Name {
	case "Shell":
		if event := hook.BeforeShellExecution; t.mayRun(event) {
			sandboxed, err := t.sandboxes(ctx, c)
			if err != nil {
				return hook.Outcome{}, err
			}
			events = append(events, hook.Input{Event: event, Subject: args.Command, Fields: map[string]any{
				"command": args.Command, "cwd": folder, "sandbox": sandboxed,
			}})
		}
	case "Read":
		events = append(events, hook.Input{Event: hook.BeforeReadFile, Subject: name, Fields: map[string]any{"file_path": args.Path}})
	}
	if server != nil {
		events = append(events, hook.Input{Event: hook.BeforeMCPExecution, Subject: server.Args.Tool, Fields: server.Fields()})
	}
	if args.Dir == "" {
		t.ofShell(*c, events)
	}
	outcome, err := t.runHooks(ctx, hook.Call{Events: events})
	if server != nil && outcome.UpdatedInput != nil {
		outcome.UpdatedInput = server.Changed(outcome.UpdatedInput)
	}
	return outcome, err
}

// sandboxes reports whether a shell call will run in the sandbox, unless a hook
// changes the call or a person decides otherwise.
func (t *thread) sandboxes(ctx context.Context, c *agent.Call) (bool, error) {
	switch {
	case t.state().Mode == agent.ModePlan:
		return t.machine.Enforced(), nil
	case t.Review == nil:
		return false, nil
	}
	v, err := t.Review.Check(ctx, t.state(), c.ToolCall, t.machine.Enforced())
	return v.Treatment == permit.Sandboxed, err
}

// ofShell marks the events of a shell call, so that the machine adds the
// shell's working directory.
func (t *thread) ofShell(c agent.Call, events []hook.Input) {
	if c.Name != "Shell" {
		return
	}
	for i := range events {
		events[i].OfShell, events[i].Shell = true, t.routedCall(c).Shell
	}
}

// after runs the hooks that follow a call, and adds their messages to its
// result.
func (t *thread) after(ctx context.Context, c agent.Call, r *tool.Result, took time.Duration) error {
	server := t.offers.Hook(ctx, t.rec.Snapshot(), c.ToolCall)
	events := loophook.After(c, server, *r, took)
	t.ofShell(c, events)
	outcome, err := t.runHooks(ctx, hook.Call{Events: t.presentOnes(events)})
	if server != nil && outcome.UpdatedMCPOutput != nil {
		offer.Replace(r, outcome.UpdatedMCPOutput)
	}
	// A hook cannot deny a call that has already run; its message goes to the
	// model.
	if words := strings.TrimSpace(outcome.AdditionalContext + "\n" + outcome.AgentMessage); words != "" {
		r.Text += "\n\n[message from a project hook]\n" + words
	}
	return err
}

// mayRun reports whether the machine may have hooks for an event.
func (l *Loop) mayRun(event hook.Event) bool {
	present := l.present.Load()
	return present == nil || (*present)[event]
}

// hasHooks reports whether the machine may have hooks.
func (l *Loop) hasHooks() bool {
	present := l.present.Load()
	return present == nil || len(*present) > 0
}

// presentOnes returns the events for which the machine may have hooks. Until
// the machine has reported its hooks, these are all events.
func (l *Loop) presentOnes(events []hook.Input) []hook.Input {
	present := l.present.Load()
	if present == nil {
		return events
	}
	var out []hook.Input
	for _, e := range events {
		if (*present)[e.Event] {
			out = append(out, e)
		}
	}
	return out
}

// runHooks runs hooks in the machine, and journals which ran.
func (t *thread) runHooks(ctx context.Context, call hook.Call) (hook.Outcome, error) {
	if len(call.Events) == 0 || t.machine == nil {
		return hook.Outcome{}, nil
	}
	s := t.rec.Snapshot()
	if t.hasHooks() {
		if err := t.transcribe(ctx, s, &call); err != nil {
			return hook.Outcome{}, err
		}
	}
	out, err := t.machine.Hooks(ctx, s, call)
	if err != nil {
		return hook.Outcome{}, err
	}
	t.progress.Has(out.Transcript)
	present := map[hook.Event]bool{}
	for _, p := range out.Present {
		present[p] = true
	}
	t.present.Store(&present)
	if len(out.Ran) == 0 {
		return out, nil
	}
	var bodies []agent.Body
	for i, r := range out.Ran {
		ran := &agent.HookRan{Command: r.Command, File: r.File, Exit: r.Exit, DurationMS: r.Took.Milliseconds(), Failure: r.Failure}
		if i == len(out.Ran)-1 {
			ran.Message = out.UserMessage
		}
		bodies = append(bodies, ran)
	}
	return out, t.rec.Record(ctx, bodies...)
}

// tell runs hooks whose outcome is ignored. A failure to run them is only
// logged.
func (t *thread) tell(ctx context.Context, event hook.Event, fields map[string]any) {
	subject, _ := fields["subagent_type"].(string)
	if _, err := t.runHooks(ctx, hook.Call{Events: t.presentOnes([]hook.Input{{Event: event, Subject: subject, Fields: fields}})}); err != nil && !errors.Is(err, remote.ErrLost) {
		t.Logger.Warn("hooks did not run", "event", event, "error", err)
	}
}

// submit runs the hooks for a prompt, before the model sees it.
func (l *Loop) submit(ctx context.Context) error {
	s := l.rec.Snapshot()
	if s.Submitted || s.Run.Turns > 0 || len(s.Asked) == 0 {
		return nil
	}
	events := []hook.Input{{Event: hook.BeforeSubmitPrompt, Fields: map[string]any{"prompt": s.Asked[len(s.Asked)-1], "attachments": loophook.Attachments(s.Messages)}}}
	if len(s.Asked) == 1 {
		start := hook.Input{Event: hook.SessionStart, Fields: map[string]any{"session_id": s.Agent.ID, "is_background_agent": true}}
		events = append([]hook.Input{start}, events...)
	}
	outcome, err := l.own.runHooks(ctx, hook.Call{Events: events})
	if err != nil || len(outcome.Ran) == 0 {
		return err
	}
	if outcome.Stopped || outcome.Permission == hook.Deny {
		return fault.Denied("a project hook refused the prompt: %s", strings.TrimSpace(outcome.UserMessage+" "+outcome.AgentMessage)).
			Named("prompt_refused").Hint("check the project's hooks.json, or rephrase the prompt")
	}
	bodies := []agent.Body{&agent.Submitted{}}
	if outcome.AdditionalContext != "" {
		bodies = append(bodies, &agent.Notice{Text: "[message from a project hook]\n" + outcome.AdditionalContext, Code: agent.CodeHook})
	}
	return l.rec.Record(ctx, bodies...)
}

// continues runs the stop hooks, after the model's last reply. It reports whether
// one of them makes the model continue.
func (l *Loop) continues(ctx context.Context) (bool, error) {
	outcome, err := l.own.runHooks(ctx, hook.Call{
		LoopCount: l.rec.Followups(),
		Events:    l.presentOnes([]hook.Input{{Event: hook.Stop, Fields: map[string]any{"status": "completed", "loop_count": l.rec.Followups()}}}),
	})
	if err != nil || outcome.FollowupMessage == "" {
		return false, err
	}
	return true, l.rec.Record(ctx, &agent.Notice{Text: outcome.FollowupMessage, Code: agent.CodeFollowup})
}

// compacting tells the hooks that the conversation is about to be summarized.
func (t *thread) compacting(ctx context.Context) {
	tokens, percent := compact.Size(t.state()), int64(100) // 100 if the model rejected the request and its window is unknown
	if w := int64(t.info.ContextWindow); w > 0 {
		percent = tokens * 100 / w
	}
	t.tell(ctx, hook.PreCompact, map[string]any{
		"trigger": "auto", "context_usage_percent": percent, "context_tokens": tokens, "message_count": len(t.state().Messages),
	})
}
