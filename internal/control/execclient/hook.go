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
	"aloft/internal/policy/sandbox"
	"aloft/internal/text"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// Limits for the outcome of a machine's hooks, in bytes.
const (
	maxHookReply = 4 << 20
	maxHookWords = 16 << 10
	maxHookInput = 1 << 20
	maxHookRuns  = 100
	maxHookWord  = 1 << 10 // each text about a hook that ran, since all are journaled
)

// Retry times while exec-daemon restarts.
const (
	firstHookWait = 50 * time.Millisecond // doubles each time
	maxHookWait   = time.Second
	hookPatience  = 10 * time.Second // for all attempts together
)

// HookCall is a request to run the hooks for some events.
type HookCall struct {
	Events         []HookEvent
	ConversationID string
	GenerationID   string
	Model          string
	Email          string
	Team           []byte // the team's hooks.json, or nil
	User           []byte // that of the agent's owner, or nil
	LoopCount      int
	Sandbox        *sandbox.Policy // for the hooks; nil means no sandbox
	Transcript     []byte          // the part of the transcript from byte TranscriptAt on, which the machine lacks
	TranscriptAt   int64
}

// HookEvent is an event for which hooks may run.
type HookEvent struct {
	Name    string
	Subject string
	Fields  any    // encoded as a JSON object
	OfShell bool   // the machine adds the shell's working directory
	Shell   string // which shell; "" is the agent's
}

// HookOutcome is the outcome of hooks. It comes from the machine, so it may
// deny a call and add a comment, but the server must check a changed call
// again.
type HookOutcome struct {
	Permission    string // allow, deny, ask or ""
	UserMessage   string
	AgentMessage  string
	UpdatedInput  json.RawMessage // a JSON object, or nil
	Context       string
	UpdatedMCP    json.RawMessage // JSON, or nil
	Stopped       bool
	Followup      string
	Runs          []HookRun
	Warnings      []string
	PresentEvents []string
	Transcript    int64 // how many bytes of it the machine has
}

// HookRun is the outcome of one hook.
type HookRun struct {
	Command    string
	File       string
	Exit       int
	DurationMS int64
	Failure    string
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
func (h *Hooks) Run(ctx context.Context, call HookCall) (HookOutcome, error) {
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
			return HookOutcome{}, fmt.Errorf("hooks of %s: %w", e.Name, err)
		}
		req.Events = append(req.Events, &agentv1.HookEvent{Name: e.Name, Subject: e.Subject, Fields: fields, OfShell: e.OfShell, Shell: e.Shell})
	}
	res, err := h.run(ctx, req)
	if connect.CodeOf(err) == connect.CodeUnimplemented { // a machine older than hooks
		return HookOutcome{}, nil
	}
	if err == nil {
		return hookOutcome(res.Msg), nil
	}
	err = h.conn.Lost(err)
	if ctx.Err() == nil && !connect.IsWireError(err) && !errors.Is(err, pod.ErrLost) {
		return HookOutcome{}, stuck(h.patience, err)
	}
	return HookOutcome{}, fmt.Errorf("run hooks: %w", err)
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

func hookOutcome(m *agentv1.RunHooksResponse) HookOutcome {
	words := func(s string) string { return text.Head(s, maxHookWords) }
	o := HookOutcome{
		Permission: words(m.GetPermission()), UserMessage: words(m.GetUserMessage()), AgentMessage: words(m.GetAgentMessage()),
		Context: words(m.GetAdditionalContext()), Stopped: m.GetStopped(), Followup: words(m.GetFollowupMessage()),
		Transcript: m.GetTranscriptSize(),
	}
	var object map[string]json.RawMessage
	if in := m.GetUpdatedInput(); len(in) > 0 && len(in) <= maxHookInput && json.Unmarshal(in, &object) == nil && object != nil {
		o.UpdatedInput = in
	}
	if out := m.GetUpdatedMcpOutput(); len(out) > 0 && len(out) <= maxHookInput && json.Valid(out) {
		o.UpdatedMCP = out
	}
	for _, r := range m.GetRuns()[:min(len(m.GetRuns()), maxHookRuns)] {
		o.Runs = append(o.Runs, HookRun{text.Head(r.GetCommand(), maxHookWord), text.Head(r.GetFile(), maxHookWord), int(r.GetExit()), machinerpc.Duration(r.GetDurationMs()).Milliseconds(), text.Head(r.GetFailure(), maxHookWord)})
	}
	for _, w := range m.GetWarnings()[:min(len(m.GetWarnings()), maxHookRuns)] {
		o.Warnings = append(o.Warnings, text.Head(w, maxDetail))
	}
	for _, p := range m.GetPresent()[:min(len(m.GetPresent()), maxHookRuns)] {
		o.PresentEvents = append(o.PresentEvents, text.Head(p, maxDetail))
	}
	return o
}
