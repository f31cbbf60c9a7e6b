package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aloft/internal/guest/file"
	"aloft/internal/guest/guard"
	"aloft/internal/guest/shell"
	"aloft/internal/wire/agentv1"
)

// Timeouts of a command.
const (
	defaultTimeout = 30 * time.Second
	maxTimeout     = 600 * time.Second
)

// Shell runs commands in a bash session, each in the sandbox that the call asks
// for.
func Shell(session *shell.Session, sb *guard.Sandbox) Tool {
	return Tool{Name: "Shell", Bounded: true, Run: func(ctx context.Context, call *agentv1.ToolCall, emit Emit) Outcome {
		args := call.GetShellToolCall().GetArgs()
		res, text, err := runShell(ctx, session, sb, args, emit)
		if session != nil {
			jobs := session.Jobs()
			text += jobNotes(jobs)
			if res != nil {
				res.Background = jobMessages(jobs)
			}
		}
		result := &agentv1.ShellResult{Result: &agentv1.ShellResult_Success{Success: res}}
		if err != nil {
			text = err.Error() + text
			result.Result = &agentv1.ShellResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.ShellToolCall{Result: result}
		return outcomeOf(&agentv1.ToolCall{Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: done}}, text, err)
	}}
}

func runShell(ctx context.Context, session *shell.Session, sb *guard.Sandbox, args *agentv1.ShellArgs, emit Emit) (*agentv1.ShellSuccess, string, error) {
	cmd, notes, err := shellCommand(args)
	if err != nil {
		return nil, "", err
	}
	policy, guardNotes, release, err := sb.Line(ctx, session, args)
	if err != nil {
		return nil, "", err
	}
	defer release()
	notes = append(notes, guardNotes...)
	confined, err := sb.Request(policy)
	if err != nil {
		return nil, "", err
	}
	if confined != nil {
		inside, leave, err := sb.Enter(confined)
		if err != nil {
			return nil, "", err
		}
		defer leave()
		cmd.Inside = inside
	}
	if args.GetIsBackground() {
		started, text, err := startShell(ctx, session, cmd)
		if err == nil && confined != nil {
			sb.Started(session, int(started.GetPid()))
		}
		return started, text, err
	}
	res, err := session.Run(ctx, cmd, func(stdout, stderr string) {
		delta := &agentv1.ShellToolCallDelta{Stdout: stdout, Stderr: stderr}
		emit(&agentv1.ToolCallDelta{Delta: &agentv1.ToolCallDelta_ShellToolCallDelta{ShellToolCallDelta: delta}})
	})
	if err != nil {
		return nil, "", err
	}
	notes = append(notes, shellNotes(ctx, cmd, res)...)
	text := shellText(res, append(notes, guard.Explain(confined, res)...))
	if res.End == shell.TimedOut {
		return nil, "", timeoutError{errors.New(text)}
	}
	if res.End != shell.Finished || res.Signal != "" {
		return nil, "", errors.New(text) // a killed command did not finish its work
	}
	return &agentv1.ShellSuccess{
		ExitCode: int32(res.ExitCode), Stdout: res.Stdout, Stderr: res.Stderr, DurationMs: int32(res.Duration.Milliseconds()),
		WorkingDirectory: valid(res.Dir), OutputFile: res.OutputFile, OutputBytes: float64(res.OutputBytes),
	}, text, nil
}

func startShell(ctx context.Context, session *shell.Session, cmd shell.Command) (*agentv1.ShellSuccess, string, error) {
	bg, err := session.Start(ctx, cmd)
	if err != nil {
		return nil, "", err
	}
	return &agentv1.ShellSuccess{WorkingDirectory: valid(bg.Dir), OutputFile: bg.OutputFile, Pid: int32(bg.PID)},
		fmt.Sprintf("Started in the background as process %d. Its output goes to %s. Await waits for it, WriteShellStdin writes to its input.", bg.PID, bg.OutputFile), nil
}

// shellCommand converts the arguments to a command, with notes for the model.
func shellCommand(args *agentv1.ShellArgs) (shell.Command, []string, error) {
	cmd := shell.Command{Text: args.GetCommand(), Dir: args.GetWorkingDirectory(), Timeout: defaultTimeout, Threshold: int(args.GetFileOutputThresholdBytes())}
	var notes []string
	if strings.TrimSpace(cmd.Text) == "" {
		return cmd, nil, errors.New("command is empty: give a command line")
	}
	if args.Timeout != nil {
		cmd.Timeout = time.Duration(args.GetTimeout()) * time.Millisecond
		if cmd.Timeout <= 0 {
			return cmd, nil, fmt.Errorf("timeout is %d: give milliseconds from 1 to %d", args.GetTimeout(), maxTimeout.Milliseconds())
		}
		if cmd.Timeout > maxTimeout && !args.GetIsBackground() {
			cmd.Timeout = maxTimeout
			notes = append(notes, fmt.Sprintf("timeout was lowered to the maximum, %d ms; use is_background for commands that take longer", maxTimeout.Milliseconds()))
		}
	}
	if cmd.Dir == "" {
		return cmd, notes, nil
	}
	if !filepath.IsAbs(cmd.Dir) {
		return cmd, nil, fmt.Errorf("working_directory %q is not absolute: give an absolute path", cmd.Dir)
	}
	st, err := os.Stat(cmd.Dir)
	switch {
	case err != nil:
		return cmd, nil, file.Explain(cmd.Dir, err)
	case !st.IsDir():
		return cmd, nil, fmt.Errorf("working_directory %s is not a folder", cmd.Dir)
	}
	return cmd, notes, nil
}

// shellNotes returns the notes for the model in addition to the output.
func shellNotes(ctx context.Context, cmd shell.Command, res shell.Result) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	switch {
	case res.End == shell.TimedOut:
		note("timed out: the command and everything it started were killed after %d ms, before it finished. Give a longer timeout (at most %d ms), or use is_background", cmd.Timeout.Milliseconds(), maxTimeout.Milliseconds())
	case res.End == shell.Cancelled:
		note("cancelled: the command and everything it started were killed before it finished: %v", context.Cause(ctx))
	case res.Signal != "":
		note("exit code %d: killed by signal %d, %s%s", res.ExitCode, res.ExitCode-128, res.Signal, likelyCause(res.Signal))
	default:
		note("exit code %d", res.ExitCode)
	}
	if res.Restarted {
		note("the shell session ended and a new one was started in %s: exported variables were restored; other variables, functions, aliases and options are lost", valid(res.Dir))
	}
	switch {
	case res.Held:
		note("something that the command started is still running; its further output goes to %s", res.OutputFile)
	case res.OutputFile != "":
		note("the full output, %d bytes, is in %s", res.OutputBytes, res.OutputFile)
	}
	switch {
	case res.OutputFull && res.OutputFile != "":
		note("that file is incomplete: it reached its size limit or the disk is full, and the rest of the output was discarded")
	case res.OutputFull:
		note("the output was %d bytes; no file could be written to keep all of it", res.OutputBytes)
	}
	return notes
}

func likelyCause(signal string) string {
	if signal == "SIGKILL" {
		return " (often because memory ran out)"
	}
	return ""
}

// shellText formats a command's result for the model.
func shellText(res shell.Result, notes []string) string {
	var b strings.Builder
	block := func(text string) {
		b.WriteString(text)
		if text != "" && !strings.HasSuffix(text, "\n") {
			b.WriteByte('\n')
		}
	}
	block(res.Stdout)
	if res.Stderr != "" {
		block("[stderr]\n" + res.Stderr)
	}
	for i, n := range notes {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("[" + n + "]")
	}
	return b.String()
}

// maxJobNotes is how many background commands a result lists.
const maxJobNotes = 10

// jobNotes lists the background commands, as text for the model.
func jobNotes(jobs []shell.Job) string {
	var b strings.Builder
	for i, j := range jobs {
		if i == maxJobNotes {
			fmt.Fprintf(&b, "\n[and %d more in the background]", len(jobs)-i)
			break
		}
		fmt.Fprintf(&b, "\n[in the background: process %d %s: %s]", j.PID, jobState(j), clipRunes(strings.Join(strings.Fields(valid(j.Command)), " "), 80))
	}
	return b.String()
}

func jobState(j shell.Job) string {
	switch {
	case j.Running:
		return "runs"
	case j.Known:
		return fmt.Sprintf("has ended with exit code %d", j.ExitCode)
	}
	return "has ended, exit code unknown"
}

func jobMessages(jobs []shell.Job) []*agentv1.BackgroundCommand {
	var all []*agentv1.BackgroundCommand
	for _, j := range jobs {
		all = append(all, jobMessage(j))
	}
	return all
}

func jobMessage(j shell.Job) *agentv1.BackgroundCommand {
	m := &agentv1.BackgroundCommand{
		Pid: int32(j.PID), Command: clipRunes(valid(j.Command), 2000), Running: j.Running,
		OutputFile: j.OutputFile, OutputBytes: float64(j.OutputBytes),
	}
	if j.Known {
		code := int32(j.ExitCode)
		m.ExitCode = &code
	}
	return m
}

// valid returns a name with invalid UTF-8 replaced.
func valid(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
