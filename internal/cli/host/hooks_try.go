package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	guest "aloft/internal/guest/hook"
	"aloft/internal/hook"
)

// hookDenied is the exit code of `aloft hooks test` if a hook denies the event.
// A hook denies with the same exit code.
const hookDenied = 2

// maxHookInput is the maximum number of bytes that are read from stdin.
const maxHookInput = 16 << 20

func newHooksTestCommand(a *app) *cobra.Command {
	var dir, subject string
	cmd := &cobra.Command{
		Use:   "test EVENT",
		Short: "Run a project's hooks for an event, as a machine would",
		Long: `Run the hooks that match an event, with the JSON on stdin as their input, and print
each result and the combined decision. The hooks run on this computer, as you.

Hooks are read from /etc/cursor/hooks.json, the project (.aloft/hooks.json, or else
.cursor/hooks.json, and .claude/settings.json) and the same in your home folder.

The exit code is 0 if the event is allowed, and 2 if a hook denies it.`,
		Example: `  echo '{"command":"rm -rf build","cwd":"/src"}' | aloft hooks test beforeShellExecution
  aloft hooks test preToolUse --subject Write < write.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			event := hook.Event(args[0])
			if !slices.Contains(hook.Events, event) {
				return command.UsageError(fmt.Errorf("unknown event %q; the events are %s", args[0], eventNames()))
			}
			fields, err := readHookInput(a.Stdin)
			if err != nil {
				return err
			}
			if dir, err = filepath.Abs(dir); err != nil {
				return err
			}
			if subject == "" {
				subject = guest.Subject(event, fields)
			}
			set := guest.Load(guest.Sources{System: guest.SystemFile, Project: dir, Home: a.Getenv("HOME")})
			for _, w := range set.Warnings {
				a.Out.Note("warning: %s", cli.Clean(w))
			}
			out := set.Run(cmd.Context(), guest.Session{
				ConversationID: "bc-00000000-0000-0000-0000-000000000000", GenerationID: "run-00000000-0000-0000-0000-000000000000",
				Model: "test", Version: a.Version, Roots: []string{dir}, Dir: dir, Env: os.Environ(),
			}, hook.Input{Event: event, Subject: subject, Fields: fields})
			return a.showHooks(out)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "`folder` of the project")
	cmd.Flags().StringVar(&subject, "subject", "", "`text` to match against (default: the tool's name, the command or the subagent's type)")
	return cmd
}

func eventNames() string {
	var names []string
	for _, e := range hook.Events {
		names = append(names, string(e))
	}
	return strings.Join(names, ", ")
}

// readHookInput reads the fields of an event. Empty input means no fields.
func readHookInput(r io.Reader) (map[string]any, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxHookInput))
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	if len(strings.TrimSpace(string(data))) == 0 {
		return fields, nil
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, command.UsageError(fmt.Errorf("stdin must be one JSON object, the hook's input: %w", err))
	}
	return fields, nil
}

func (a *app) showHooks(out hook.Outcome) error {
	var err error
	if a.Out.JSON() {
		err = a.Out.Value(out)
	} else {
		a.describeHooks(out)
	}
	if out.Permission == hook.Deny || out.Stopped {
		return errors.Join(err, &cli.Problem{Exit: hookDenied, Code: "denied"})
	}
	return err
}

func (a *app) describeHooks(out hook.Outcome) {
	if len(out.Ran) == 0 {
		a.Out.Line("No hook matches.")
	}
	for _, r := range out.Ran {
		how := fmt.Sprintf("exit %d in %s", r.Exit, cli.Took(r.Took))
		if r.Failure != "" {
			how += ": " + cli.Line(r.Failure, 100)
		}
		a.Out.Line("%s  %s", cli.Line(r.Command, 60), a.Out.Style(cli.Dim, how))
		if r.Stderr != "" {
			a.Out.Line("  %s", cli.Line(r.Stderr, 100))
		}
	}
	for _, said := range []struct{ what, text string }{
		{"permission", string(out.Permission)}, {"to the user", out.UserMessage}, {"to the agent", out.AgentMessage},
		{"context", out.AdditionalContext}, {"input", string(out.UpdatedInput)}, {"output", string(out.UpdatedMCPOutput)},
		{"follow-up", out.FollowupMessage},
	} {
		if said.text != "" {
			a.Out.Line("%-12s %s", said.what, cli.Line(said.text, 120))
		}
	}
	if out.Stopped {
		a.Out.Line("%-12s %s", "continue", "no")
	}
}
