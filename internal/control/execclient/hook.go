package execclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/control/machinerpc"
	"aloft/internal/control/pod"
	"aloft/internal/hook"
	"aloft/internal/policy/sandbox"
	"aloft/internal/text"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// Limits on the outcome of a machine's hooks, in bytes.
const (
	maxHookReply = 4 << 20
	maxHookWords = 16 << 10
	maxHookInput = 1 << 20
	maxHookRuns  = 100
	maxHookWord  = 1 << 10 // bytes of each text about a hook; all texts are journaled
)

// Retry delays and timeout while exec-daemon restarts.
const (
	firstHookWait = 50 * time.Millisecond // doubles with each attempt
	maxHookWait   = time.Second
	hookPatience  = 10 * time.Second // timeout of all attempts together
)

// HookCall is a request to run hooks for an agent.
type HookCall struct {
	hook.Call
	ConversationID string
	GenerationID   string
	Model          string
	Email          string
	Team           []byte          // the team's hooks.json, or nil
	User           []byte          // the hooks.json of the agent's owner, or nil
	Sandbox        *sandbox.Policy // sandbox policy for the hooks; nil means no sandbox
}

// Hooks runs hooks in a machine. Its methods are safe for concurrent use.
type Hooks struct {
	client[agentv1connect.HookServiceClient]
	patience time.Duration // how long to wait for exec-daemon
}

// NewHooks returns the machine's hooks. token is exec-daemon's. The caller must
// call Close.
func NewHooks(conn Conn, token string) *Hooks {
	return &Hooks{newClient(conn, token, maxHookReply, agentv1connect.NewHookServiceClient), hookPatience}
}

// Run runs the hooks for the call's events. If exec-daemon dies meanwhile, its
// successor runs them again. The error wraps [pod.ErrLost] if the machine is gone;
// it is a fault if exec-daemon does not come back.
func (h *Hooks) Run(ctx context.Context, call HookCall) (hook.Outcome, error) {
	req := &agentv1.RunHooksRequest{
		ConversationId: call.ConversationID, GenerationId: call.GenerationID, Model: call.Model, UserEmail: call.Email,
		TeamHooks: call.Team, UserHooks: call.User, LoopCount: int32(min(call.LoopCount, 1<<20)),
		Transcript: call.Transcript, TranscriptAt: call.TranscriptAt,
	}
	if call.Sandbox != nil {
		req.SandboxPolicy = machinerpc.EncodePolicy(*call.Sandbox)
	}
	for _, e := range call.Events {
		fields, err := json.Marshal(e.Fields)
		if err != nil {
			return hook.Outcome{}, fmt.Errorf("hooks of %s: %w", e.Event, err)
		}
		req.Events = append(req.Events, &agentv1.HookEvent{Name: string(e.Event), Subject: e.Subject, Fields: fields, OfShell: e.OfShell, Shell: e.Shell})
	}
	res, err := h.run(ctx, req)
	if connect.CodeOf(err) == connect.CodeUnimplemented { // the machine is older than hooks
		return hook.Outcome{}, nil
	}
	if err == nil {
		return hookOutcome(res.Msg), nil
	}
	err = h.conn.Lost(err)
	if ctx.Err() == nil && !connect.IsWireError(err) && !errors.Is(err, pod.ErrLost) {
		return hook.Outcome{}, stuck(h.patience, err)
	}
	return hook.Outcome{}, fmt.Errorf("run hooks: %w", err)
}

// run repeats the request until exec-daemon replies.
func (h *Hooks) run(ctx context.Context, req *agentv1.RunHooksRequest) (*connect.Response[agentv1.RunHooksResponse], error) {
	began := time.Now()
	for wait := firstHookWait; ; wait = min(2*wait, maxHookWait) {
		res, err := h.service.RunHooks(ctx, connect.NewRequest(req))
		if err == nil || connect.IsWireError(err) || errors.Is(h.conn.Lost(err), pod.ErrLost) || time.Since(began) >= h.patience {
			return res, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

func hookOutcome(m *agentv1.RunHooksResponse) hook.Outcome {
	words := func(s string) string { return text.Head(s, maxHookWords) }
	o := hook.Outcome{
		Permission: hook.Permission(words(m.GetPermission())), UserMessage: words(m.GetUserMessage()), AgentMessage: words(m.GetAgentMessage()),
		AdditionalContext: words(m.GetAdditionalContext()), Stopped: m.GetStopped(), FollowupMessage: words(m.GetFollowupMessage()),
		Transcript: m.GetTranscriptSize(),
	}
	var object map[string]json.RawMessage
	if in := m.GetUpdatedInput(); len(in) > 0 && len(in) <= maxHookInput && json.Unmarshal(in, &object) == nil && object != nil {
		o.UpdatedInput = in
	}
	if out := m.GetUpdatedMcpOutput(); len(out) > 0 && len(out) <= maxHookInput && json.Valid(out) {
		o.UpdatedMCPOutput = out
	}
	for _, r := range m.GetRuns()[:min(len(m.GetRuns()), maxHookRuns)] {
		o.Ran = append(o.Ran, hook.Ran{Command: text.Head(r.GetCommand(), maxHookWord), File: text.Head(r.GetFile(), maxHookWord), Exit: int(r.GetExit()), Took: machinerpc.Duration(r.GetDurationMs()), Failure: text.Head(r.GetFailure(), maxHookWord)})
	}
	for _, w := range m.GetWarnings()[:min(len(m.GetWarnings()), maxHookRuns)] {
		o.Warnings = append(o.Warnings, text.Head(w, maxDetail))
	}
	for _, p := range m.GetPresent()[:min(len(m.GetPresent()), maxHookRuns)] {
		o.Present = append(o.Present, hook.Event(text.Head(p, maxDetail)))
	}
	return o
}
