package execd

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	guest "aloft/internal/guest/hook"
	"aloft/internal/hook"
	"aloft/internal/wire/agentv1"
)

// Limits of what hooks receive and return.
const (
	maxHookEvents  = 8
	maxHookContent = 1 << 20 // largest file contents that a beforeReadFile hook receives, in bytes
	maxHookWords   = 64 << 10
)

// RunHooks implements HookService.
func (s *Server) RunHooks(ctx context.Context, req *connect.Request[agentv1.RunHooksRequest]) (*connect.Response[agentv1.RunHooksResponse], error) {
	m := req.Msg
	if len(m.GetEvents()) > maxHookEvents {
		return nil, fault.Invalid("at most %d events at once", maxHookEvents)
	}
	set := guest.Load(guest.Sources{System: guest.SystemFile, Team: m.GetTeamHooks(), Project: s.workspace, User: m.GetUserHooks(), Home: s.home})
	session := guest.Session{
		ConversationID: m.GetConversationId(), GenerationID: m.GetGenerationId(), Model: m.GetModel(), Version: s.version,
		Roots: []string{s.workspace}, Email: m.GetUserEmail(), Dir: s.workspace, Env: s.environ,
		LoopCount: int(m.GetLoopCount()),
	}
	var written int64
	if slices.ContainsFunc(hook.Events, set.Has) {
		session.Transcript, written = s.transcript(m)
	}
	if p := m.GetSandboxPolicy(); p != nil {
		around, err := s.sandbox.Around(p)
		if err != nil {
			return nil, fault.Invalid("%v", err).At("sandbox_policy")
		}
		session.Around = around
	}
	var all hook.Outcome
	for _, e := range m.GetEvents() {
		in, err := s.hookInput(e)
		if err != nil {
			return nil, err
		}
		if all.UpdatedInput != nil {
			s.changed(&in, all.UpdatedInput)
		}
		all = all.Join(set.Run(ctx, session, in))
		if late := strings.HasPrefix(e.GetName(), "post") || strings.HasPrefix(e.GetName(), "after"); late {
			continue // the event has already happened and cannot be denied
		}
		if all.Permission == hook.Deny || all.Stopped {
			break
		}
	}
	if len(all.Env) > 0 && s.setEnv != nil {
		if err := s.setEnv(ctx, all.Env, nil); err != nil {
			return nil, err
		}
	}
	all.Warnings, all.Transcript = set.Warnings, written
	for _, e := range hook.Events {
		if set.Has(e) {
			all.Present = append(all.Present, e)
		}
	}
	return connect.NewResponse(hookResponse(all)), nil
}

// hasHooks reports whether the machine itself has hooks, for any event.
func (s *Server) hasHooks() bool {
	set := guest.Load(guest.Sources{System: guest.SystemFile, Project: s.workspace, Home: s.home})
	return slices.ContainsFunc(hook.Events, set.Has)
}

// hookInput builds the input of one event's hooks. If a file is about to be
// read, it adds the file's contents from the machine.
func (s *Server) hookInput(e *agentv1.HookEvent) (hook.Input, error) {
	fields := map[string]any{}
	if len(e.GetFields()) > 0 {
		if err := json.Unmarshal(e.GetFields(), &fields); err != nil {
			return hook.Input{}, fault.Invalid("the fields of %s are not a JSON object", e.GetName())
		}
	}
	event := hook.Event(e.GetName())
	if path, ok := fields["file_path"].(string); ok && event == hook.BeforeReadFile {
		fields["content"] = s.firstCommit(path)
	}
	if _, present := fields["cwd"]; present && e.GetOfShell() && s.folder != nil {
		fields["cwd"] = s.folder(e.GetShell())
	}
	return hook.Input{Event: event, Subject: e.GetSubject(), Fields: fields}, nil
}

// changed replaces the arguments by those that an earlier event's hooks have
// returned.
func (s *Server) changed(in *hook.Input, args json.RawMessage) {
	in.Fields["tool_input"] = args
	var of struct{ Command, Path *string }
	if json.Unmarshal(args, &of) != nil {
		return // the tool reports the error
	}
	if of.Command != nil && in.Event == hook.BeforeShellExecution {
		in.Fields["command"], in.Subject = *of.Command, *of.Command
	}
	if of.Path != nil && in.Event == hook.BeforeReadFile {
		in.Fields["file_path"], in.Fields["content"] = *of.Path, s.firstCommit(*of.Path)
	}
}

// firstCommit returns the beginning of a file, whose path may be relative to the
// workspace, or "" if it cannot be read.
func (s *Server) firstCommit(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.workspace, path)
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxHookContent))
	if err != nil {
		return ""
	}
	return valid(string(data), maxHookContent)
}

func hookResponse(o hook.Outcome) *agentv1.RunHooksResponse {
	res := &agentv1.RunHooksResponse{
		Permission: string(o.Permission), UserMessage: valid(o.UserMessage, maxHookWords), AgentMessage: valid(o.AgentMessage, maxHookWords),
		UpdatedInput: o.UpdatedInput, AdditionalContext: valid(o.AdditionalContext, maxHookWords), UpdatedMcpOutput: o.UpdatedMCPOutput,
		Stopped: o.Stopped, FollowupMessage: valid(o.FollowupMessage, maxHookWords), TranscriptSize: o.Transcript,
	}
	for _, r := range o.Ran {
		res.Runs = append(res.Runs, &agentv1.HookRun{
			Command: valid(r.Command, maxReason), File: valid(r.File, maxReason), Exit: int32(r.Exit), DurationMs: r.Took.Milliseconds(), Failure: valid(r.Failure, maxReason),
		})
	}
	for _, w := range o.Warnings {
		res.Warnings = append(res.Warnings, valid(w, maxReason))
	}
	for _, e := range o.Present {
		res.Present = append(res.Present, string(e))
	}
	return res
}
