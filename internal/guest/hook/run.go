package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"aloft/internal/hook"
)

// A Session has the data that all hooks of an agent receive, and says where
// they run.
type Session struct {
	ConversationID string
	GenerationID   string // the id of the run
	Model          string
	Version        string // Aloft's version
	Roots          []string
	Email          string   // the agent's owner; "" if unknown
	Transcript     string   // path of the transcript; "" if there is none
	Dir            string   // the project's root, the hooks' working directory
	Env            []string // NAME=value, the hooks' environment
	LoopCount      int      // number of consecutive followup_message results that have been acted on
	// Around wraps a command line in a sandbox; nil runs hooks without one.
	Around func(argv ...string) ([]string, error)
}

// answer is the JSON that a hook may print.
type answer struct {
	Permission        string            `json:"permission"`
	UserMessage       string            `json:"user_message"`
	AgentMessage      string            `json:"agent_message"`
	UpdatedInput      json.RawMessage   `json:"updated_input"`
	AdditionalContext string            `json:"additional_context"`
	UpdatedMCPOutput  json.RawMessage   `json:"updated_mcp_tool_output"`
	Continue          *bool             `json:"continue"`
	FollowupMessage   string            `json:"followup_message"`
	Env               map[string]string `json:"env"`
}

// Run runs the event's matching hooks one after the other, and returns their combined
// result. Each hook receives the input as changed by the previous hooks. Run stops after
// the first hook that denies.
func (s *Set) Run(ctx context.Context, session Session, in hook.Input) hook.Outcome {
	var out hook.Outcome
	fields := map[string]any{}
	maps.Copy(fields, in.Fields)
	for _, h := range s.hooks[in.Event] {
		if !h.matches(in) || session.LoopCount > 0 && session.LoopCount >= h.LoopLimit {
			continue
		}
		a, ran := h.run(ctx, session, in.Event, fields)
		out = out.Join(a.outcome(ran))
		if out.UpdatedInput != nil {
			fields["tool_input"] = out.UpdatedInput
		}
		if out.Permission == hook.Deny || out.Stopped {
			break
		}
	}
	return out
}

func (h Hook) matches(in hook.Input) bool {
	if h.matcher == nil {
		return true
	}
	if h.claude {
		if name, ok := claudeTools[in.Subject]; ok && h.matcher.MatchString(name) {
			return true
		}
	}
	return h.matcher.MatchString(in.Subject)
}

// outcome converts one hook's answer to an outcome.
func (a answer) outcome(ran hook.Ran) hook.Outcome {
	o := hook.Outcome{
		Permission: hook.Permission(a.Permission), UserMessage: a.UserMessage, AgentMessage: a.AgentMessage, AdditionalContext: a.AdditionalContext,
		Stopped: a.Continue != nil && !*a.Continue, FollowupMessage: a.FollowupMessage, Env: a.Env, Ran: []hook.Ran{ran},
	}
	if isObject(a.UpdatedInput) {
		o.UpdatedInput = a.UpdatedInput
	}
	if len(a.UpdatedMCPOutput) > 0 && string(a.UpdatedMCPOutput) != "null" {
		o.UpdatedMCPOutput = a.UpdatedMCPOutput
	}
	return o
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// The exit status that means "deny".
const exitDeny = 2

// run runs one hook.
func (h Hook) run(ctx context.Context, session Session, event hook.Event, fields map[string]any) (answer, hook.Ran) {
	start := time.Now()
	stdout, stderr, err := h.process(ctx, session, event, fields)
	ran := hook.Ran{Command: h.Command, File: h.File, Took: time.Since(start), Stderr: stderr}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		ran.Exit = exit.ExitCode()
	} else if err != nil {
		ran.Exit = -1
	}
	if ran.Exit == exitDeny {
		return answer{Permission: string(hook.Deny), AgentMessage: strings.TrimSpace(stderr)}, ran
	}
	var a answer
	if err == nil {
		a, err = h.read(stdout, event)
	}
	if err == nil {
		return a, ran
	}
	ran.Failure = err.Error()
	if h.FailClosed {
		return answer{Permission: string(hook.Deny), AgentMessage: "a hook with failClosed failed: " + ran.Failure}, ran
	}
	return answer{}, ran
}

// read parses a hook's output. Empty output is valid.
func (h Hook) read(stdout []byte, event hook.Event) (answer, error) {
	stdout = bytes.TrimSpace(stdout)
	if len(stdout) == 0 {
		return answer{}, nil
	}
	var a answer
	if h.claude {
		if stdout[0] != '{' { // for these events plain text is a message for the model
			if event == hook.SessionStart || event == hook.BeforeSubmitPrompt {
				return answer{AdditionalContext: string(stdout)}, nil
			}
			return answer{}, nil
		}
		var c claudeAnswer
		if err := json.Unmarshal(stdout, &c); err != nil {
			return answer{}, fmt.Errorf("its output is not valid hook JSON: %w", err)
		}
		a = c.plain(event)
	} else if err := json.Unmarshal(stdout, &a); err != nil {
		return answer{}, fmt.Errorf("its output is not valid hook JSON: %w", err)
	}
	if p := hook.Permission(a.Permission); !slices.Contains([]hook.Permission{hook.None, hook.Allow, hook.Ask, hook.Deny}, p) {
		return answer{}, fmt.Errorf("permission %q: must be allow, deny or ask", a.Permission)
	}
	return a, nil
}

// stdin returns the hook's input.
func (h Hook) stdin(session Session, event hook.Event, fields map[string]any) ([]byte, error) {
	in := map[string]any{
		"conversation_id": session.ConversationID, "generation_id": session.GenerationID, "model": session.Model,
		"hook_event_name": string(event), "cursor_version": session.Version, "workspace_roots": session.Roots,
		"user_email": optional(session.Email), "transcript_path": optional(session.Transcript),
	}
	maps.Copy(in, fields)
	if h.claude {
		in = claudeInput(in, event)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // scripts use grep to find "a && b"
	err := enc.Encode(in)
	return out.Bytes(), err
}

// optional returns null for an unknown value.
func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// errOutput is the error of a hook that was killed for printing too much.
var errOutput = fmt.Errorf("it printed more than %d bytes", maxOutput)

// process runs the hook's command. On timeout it kills the command and
// everything it started.
func (h Hook) process(ctx context.Context, session Session, event hook.Event, fields map[string]any) (stdout []byte, stderr string, err error) {
	in, err := h.stdin(session, event, fields)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.Timeout, fmt.Errorf("it timed out after %s", h.Timeout))
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	argv := []string{"/bin/sh", "-c", h.Command}
	if session.Around != nil {
		if argv, err = session.Around(argv...); err != nil {
			return nil, "", err
		}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, said := &limited{max: maxOutput, full: func() { abort(errOutput) }}, &limited{max: maxStderr, last: true}
	cmd.Dir, cmd.Env = session.Dir, append(slices.Clone(session.Env), h.variables(session)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), out, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for child processes that keep the output open
	err = cmd.Run()
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	if errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, syscall.EPIPE) {
		err = nil // it succeeded, but left a process running or did not read its input
	}
	return out.data, string(said.data), err
}

// variables returns the hook's environment.
func (h Hook) variables(session Session) []string {
	vars := []string{
		"CURSOR_PROJECT_DIR=" + session.Dir, "CURSOR_VERSION=" + session.Version, "CURSOR_USER_EMAIL=" + session.Email,
		"CURSOR_TRANSCRIPT_PATH=" + session.Transcript, "CURSOR_CODE_REMOTE=true", "CLAUDE_PROJECT_DIR=" + session.Dir,
	}
	if h.plugin != "" {
		vars = append(vars, "CURSOR_PLUGIN_ROOT="+h.plugin, "CLAUDE_PLUGIN_ROOT="+h.plugin)
	}
	return vars
}

const maxStderr = 8 << 10 // how much of a hook's stderr is kept, in bytes

// limited keeps the first max bytes, or the last.
type limited struct {
	data []byte
	max  int
	last bool
	full func()
}

// Write implements [io.Writer].
func (l *limited) Write(p []byte) (int, error) {
	l.data = append(l.data, p...)
	if over := len(l.data) - l.max; over > 0 {
		if l.last {
			l.data = l.data[over:]
		} else {
			l.data = l.data[:l.max]
			l.full()
		}
	}
	return len(p), nil
}
