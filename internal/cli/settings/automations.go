package settings

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newAutomationsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "automations",
		Short: "Start agents on a schedule, on events or by hand",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAutomationsListCommand(a), newAutomationsShowCommand(a), newAutomationsCreateCommand(a), newAutomationsUpdateCommand(a),
		newAutomationsStateCommand(a, "activate", "active", "Activate an automation: its trigger starts it"),
		newAutomationsStateCommand(a, "pause", "paused", "Pause an automation: only people start it"),
		newAutomationsDeleteCommand(a), newAutomationsStartCommand(a), newAutomationsTryCommand(a), newAutomationsHistoryCommand(a),
		newAutomationsChangeCommand(a, "promote", "Start an entry of the backlog", "Queued:", (*client.Client).PromoteAutomationStart),
		newAutomationsChangeCommand(a, "cancel", "Cancel a start, and the run of its agent", "Cancelled:", (*client.Client).CancelAutomationStart))
	return cmd
}

// nameOf returns the name in the spec of an automation.
func nameOf(a client.Automation) string {
	var spec struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(a.Spec, &spec) != nil {
		return ""
	}
	return spec.Name
}

func newAutomationsListCommand(a *app) *cobra.Command {
	var all bool
	cmd := command.List[client.Automation]{
		Use: "list", Short: "List automations, newest first",
		Of: func(ctx context.Context, c *client.Client, _ []string) ([]client.Automation, error) {
			return c.Automations(ctx, all)
		},
		Head: []string{"ID", "NAME", "STATE", "NEXT", "REASON"}, None: "No automations yet. Create one with `aloft automations create FILE`.",
		Row: func(one client.Automation) []string {
			next := ""
			if one.NextAt != nil {
				next = one.NextAt.Local().Format("2006-01-02 15:04")
			}
			return []string{cli.Line(one.ID, 80), cli.Line(nameOf(one), 40), cli.Line(one.State, 10), next, cli.Line(one.Reason, 100)}
		},
	}.Command(a.App)
	cmd.Flags().BoolVar(&all, "all", false, "also those of other people; admins and viewers only")
	return cmd
}

func newAutomationsShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show AUTOMATION", Short: "Print the definition of an automation, in YAML", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			got, err := c.Automation(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(got)
			}
			text, err := yaml.JSONToYAML(got.Spec)
			if err != nil {
				return err
			}
			a.Out.Line("%s", cli.Clean(strings.TrimSuffix(string(text), "\n")))
			return nil
		},
	}
}

// maxDefinition limits the size of a file with a definition.
const maxDefinition = 64 << 10

// readDefinition reads a definition in YAML or JSON from a file, or from the
// standard input if the file is "-".
func readDefinition(cmd *cobra.Command, file string) (json.RawMessage, error) {
	in := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxDefinition+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxDefinition {
		return nil, command.UsageError(fmt.Errorf("%s is larger than %d KiB", file, maxDefinition>>10))
	}
	out, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, command.UsageError(fmt.Errorf("%s is not valid YAML: %w", file, err))
	}
	return out, nil
}

func newAutomationsCreateCommand(a *app) *cobra.Command {
	var draft bool
	var user int64
	cmd := &cobra.Command{
		Use: "create FILE", Short: "Create an automation from a file",
		Long:    "Create an automation from a file in YAML, or from the standard input if FILE is -.",
		Example: "  aloft automations create nightly.yaml\n  aloft automations create --draft -", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := readDefinition(cmd, args[0])
			if err != nil {
				return err
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			n := client.AutomationChange{Spec: spec, UserID: user}
			if draft {
				n.State = "draft"
			}
			made, err := c.CreateAutomation(cmd.Context(), n)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(made)
			}
			a.Out.Line("%s", cli.Line(made.ID, 80))
			return nil
		},
	}
	cmd.Flags().BoolVar(&draft, "draft", false, "create it as a draft, which only people start")
	cmd.Flags().Int64Var(&user, "user", 0, "`ID` of the member who owns its agents; admins only")
	return cmd
}

func newAutomationsUpdateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "update AUTOMATION FILE", Short: "Replace the definition of an automation", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := readDefinition(cmd, args[1])
			if err != nil {
				return err
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if _, err := c.UpdateAutomation(cmd.Context(), args[0], client.AutomationChange{Spec: spec}); err != nil {
				return err
			}
			return a.ReportDone("Updated:", args[0])
		},
	}
}

func newAutomationsStateCommand(a *app, verb, state, short string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " AUTOMATION", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if _, err := c.UpdateAutomation(cmd.Context(), args[0], client.AutomationChange{State: state}); err != nil {
				return err
			}
			return a.ReportDone("Now "+state+":", args[0])
		},
	}
}

func newAutomationsDeleteCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "delete AUTOMATION", Short: "Delete an automation with its history; its agents remain", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := c.DeleteAutomation(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.ReportDone("Deleted:", args[0])
		},
	}
}

// inputsOf parses inputs of the form NAME=VALUE. A value that is a number, true
// or false in JSON is sent as such, unless it is quoted.
func inputsOf(given []string) (map[string]any, error) {
	out := map[string]any{}
	for _, one := range given {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return nil, command.UsageError(fmt.Errorf("invalid input %q: use NAME=VALUE", one))
		}
		var v any
		if json.Unmarshal([]byte(value), &v) != nil {
			v = value
		}
		switch v.(type) {
		case string, float64, bool:
			out[name] = v
		default:
			out[name] = value
		}
	}
	return out, nil
}

func newAutomationsStartCommand(a *app) *cobra.Command {
	var given []string
	var later bool
	cmd := &cobra.Command{
		Use: "start AUTOMATION", Short: "Start an automation now, or add a start to its backlog",
		Example: "  aloft automations start auto-… --input level=major\n  aloft automations start auto-… --later", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			inputs, err := inputsOf(given)
			if err != nil {
				return err
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			made, err := c.StartAutomation(cmd.Context(), args[0], inputs, later)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(made)
			}
			a.Out.Line("%s", cli.Line(made.ID, 80))
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&given, "input", nil, "an input, as `NAME=VALUE`; repeatable")
	cmd.Flags().BoolVar(&later, "later", false, "add it to the backlog, from which 'aloft automations promote' starts it")
	return cmd
}

func newAutomationsTryCommand(a *app) *cobra.Command {
	var given []string
	var event string
	cmd := &cobra.Command{
		Use: "try AUTOMATION", Short: "Print the prompt of an automation, without starting it",
		Long: `Print the prompt of an automation, without starting it. With --event, say whether the
received event would start it.`, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			inputs, err := inputsOf(given)
			if err != nil {
				return err
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			t, err := c.TryAutomation(cmd.Context(), args[0], event, inputs)
			switch {
			case err != nil:
				return err
			case a.Out.JSON():
				return a.Out.Value(t)
			case !t.Accepted:
				a.Out.Line("Would not start: %s", cli.Line(t.Reason, 500))
			default:
				a.Out.Line("%s", cli.Clean(t.Prompt))
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&given, "input", nil, "an input, as `NAME=VALUE`; repeatable")
	cmd.Flags().StringVar(&event, "event", "", "`ID` of a received event, from `aloft events list`; admins only")
	return cmd
}

func newAutomationsHistoryCommand(a *app) *cobra.Command {
	return command.List[client.AutomationStart]{
		Use: "history AUTOMATION", Short: "List the starts of an automation, newest first", Args: cobra.ExactArgs(1),
		Of: func(ctx context.Context, c *client.Client, args []string) ([]client.AutomationStart, error) {
			return c.AutomationStarts(ctx, args[0])
		},
		Head: []string{"ID", "TRIGGER", "STATE", "CREATED", "COST", "AGENT", "REASON"}, None: "No starts yet.",
		Row: func(s client.AutomationStart) []string {
			cost := ""
			if s.Cost > 0 {
				cost = "$" + strconv.FormatFloat(s.Cost, 'f', 2, 64)
			}
			return []string{cli.Line(s.ID, 80), cli.Line(s.Trigger, 10), cli.Line(s.State, 10), cli.Ago(time.Since(s.CreatedAt)), cost, cli.Line(s.AgentID, 80), cli.Line(s.Reason, 100)}
		},
	}.Command(a.App)
}

func newAutomationsChangeCommand(a *app, verb, short, done string, change func(*client.Client, context.Context, string, string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " AUTOMATION START", Short: short, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := change(c, cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			return a.ReportDone(done, args[1])
		},
	}
}
