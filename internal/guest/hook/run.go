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
)

// A Session is what every hook of an agent is told, and where hooks run.
type Session struct {
	ConversationID string
	GenerationID   string // of the run
	Model          string
	Version        string // of Aloft
	Roots          []string
	Email          string   // of the agent's owner; "" if unknown
	Transcript     string   // a file; "" if there is none
	Dir            string   // the project's root, where hooks run
	Env            []string // NAME=value, of hooks' processes
	// Around puts a command line into a sandbox; without it there is none.
	Around func(argv ...string) ([]string, error)
}

// answer is what a hook may say on its stdout.
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

// Run runs the hooks of the event that match, one after the other, and returns
// what they say together. Each is told the input as the one before it left it.
// The first that forbids is the last that runs.
func (s *Set) Run(ctx context.Context, session Session, in Input) Outcome {
	var out Outcome
	fields := map[string]any{}
	maps.Copy(fields, in.Fields)
	for _, h := range s.hooks[in.Event] {
		if !h.matches(in) || in.LoopCount > 0 && in.LoopCount >= h.LoopLimit {
			continue
		}
		a, ran := h.run(ctx, session, in.Event, fields)
		out = out.Join(a.outcome(ran))
		if out.UpdatedInput != nil {
			fields["tool_input"] = out.UpdatedInput
		}
		if out.Permission == Deny || out.Stopped {
			break
		}
	}
	return out
}

func (h Hook) matches(in Input) bool {
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

// outcome is what one hook says, as an outcome of its own.
func (a answer) outcome(ran Ran) Outcome {
	o := Outcome{
		Permission: Permission(a.Permission), UserMessage: a.UserMessage, AgentMessage: a.AgentMessage, AdditionalContext: a.AdditionalContext,
		Stopped: a.Continue != nil && !*a.Continue, FollowupMessage: a.FollowupMessage, Env: a.Env, Ran: []Ran{ran},
	}
	if isObject(a.UpdatedInput) {
		o.UpdatedInput = a.UpdatedInput
	}
	if len(a.UpdatedMCPOutput) > 0 && string(a.UpdatedMCPOutput) != "null" {
		o.UpdatedMCPOutput = a.UpdatedMCPOutput
	}
	return o
}

// Join returns what o and a later outcome say together: the strictest
// permission, all words, and what was changed last.
func (o Outcome) Join(later Outcome) Outcome {
	join := func(to *string, more string) {
		if more != "" && *to != "" {
			*to += "\n"
		}
		*to += more
	}
	o.Permission = strictest(o.Permission, later.Permission)
	join(&o.UserMessage, later.UserMessage)
	join(&o.AgentMessage, later.AgentMessage)
	join(&o.AdditionalContext, later.AdditionalContext)
	join(&o.FollowupMessage, later.FollowupMessage)
	o.Stopped = o.Stopped || later.Stopped
	if later.UpdatedInput != nil {
		o.UpdatedInput = later.UpdatedInput
	}
	if later.UpdatedMCPOutput != nil {
		o.UpdatedMCPOutput = later.UpdatedMCPOutput
	}
	if len(later.Env) > 0 {
		env := map[string]string{}
		maps.Copy(env, o.Env)
		maps.Copy(env, later.Env)
		o.Env = env
	}
	o.Ran = slices.Concat(o.Ran, later.Ran)
	return o
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// The exit status with which a hook forbids.
const exitDeny = 2

// run runs one hook.
func (h Hook) run(ctx context.Context, session Session, event Event, fields map[string]any) (answer, Ran) {
	start := time.Now()
	stdout, stderr, err := h.process(ctx, session, event, fields)
	ran := Ran{Command: h.Command, File: h.File, Took: time.Since(start), Stderr: stderr}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		ran.Exit = exit.ExitCode()
	} else if err != nil {
		ran.Exit = -1
	}
	if ran.Exit == exitDeny {
		return answer{Permission: string(Deny), AgentMessage: strings.TrimSpace(stderr)}, ran
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
		return answer{Permission: string(Deny), AgentMessage: "a hook that must succeed did not: " + ran.Failure}, ran
	}
	return answer{}, ran
}

// read reads what a hook said. Saying nothing is fine.
func (h Hook) read(stdout []byte, event Event) (answer, error) {
	stdout = bytes.TrimSpace(stdout)
	if len(stdout) == 0 {
		return answer{}, nil
	}
	var a answer
	if h.claude {
		if stdout[0] != '{' { // its words are for the model, at these events
			if event == SessionStart || event == BeforeSubmitPrompt {
				return answer{AdditionalContext: string(stdout)}, nil
			}
			return answer{}, nil
		}
		var c claudeAnswer
		if err := json.Unmarshal(stdout, &c); err != nil {
			return answer{}, fmt.Errorf("its output is not the JSON of a hook: %w", err)
		}
		a = c.plain(event)
	} else if err := json.Unmarshal(stdout, &a); err != nil {
		return answer{}, fmt.Errorf("its output is not the JSON of a hook: %w", err)
	}
	if p := Permission(a.Permission); !slices.Contains([]Permission{None, Allow, Ask, Deny}, p) {
		return answer{}, fmt.Errorf("permission %q: it is allow, deny or ask", a.Permission)
	}
	return a, nil
}

// stdin is what the hook is told.
func (h Hook) stdin(session Session, event Event, fields map[string]any) ([]byte, error) {
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
	enc.SetEscapeHTML(false) // scripts look for "a && b" with grep
	err := enc.Encode(in)
	return out.Bytes(), err
}

// optional is null for what is not known.
func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// errOutput is what kills a hook that says too much.
var errOutput = fmt.Errorf("it said more than %d bytes", maxOutput)

// process runs the hook's command to its end. Whatever it has started is killed
// with it when its time is up.
func (h Hook) process(ctx context.Context, session Session, event Event, fields map[string]any) (stdout []byte, stderr string, err error) {
	in, err := h.stdin(session, event, fields)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.Timeout, fmt.Errorf("it took longer than %s", h.Timeout))
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
	cmd.WaitDelay = time.Second // for what it left behind that holds its output
	err = cmd.Run()
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	if errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, syscall.EPIPE) {
		err = nil // it ended well, and left a process, or did not read what it was told
	}
	return out.data, string(said.data), err
}

// variables are what a hook finds in its environment.
func (h Hook) variables(session Session) []string {
	return []string{
		"CURSOR_PROJECT_DIR=" + session.Dir, "CURSOR_VERSION=" + session.Version, "CURSOR_USER_EMAIL=" + session.Email,
		"CURSOR_TRANSCRIPT_PATH=" + session.Transcript, "CURSOR_CODE_REMOTE=true", "CLAUDE_PROJECT_DIR=" + session.Dir,
	}
}

const maxStderr = 8 << 10 // bytes that are kept of what a hook says on stderr

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
