package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
)

func newRulesCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Manage what agents may do without asking, and how they work",
		Long: `Manage what agents may do without asking, and how they work.

The server stores these rules for you and, with --team, for everybody:

  run-mode          run-everything (the default), auto-review or allowlist
    deny-after        how long a request waits before it is denied, such as 8h
    permissions.json  what runs without asking, and instructions for the classifier
    sandbox.json      what sandboxed commands may access
    hooks.json        scripts that run before and after agents' actions
    rules.md          text that tells agents how to work
    skills.md         skills: how to do something, which agents read when they need it
    skills-draft.md   with --team: skills that are tried before they are published
  
  A repository can have its own in .aloft or .cursor.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRulesShowCommand(a), newRulesSetCommand(a), newRulesPublishCommand(a), newRulesVersionsCommand(a))
	return cmd
}

func newRulesShowCommand(a *app) *cobra.Command {
	var team bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a rule file", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			rule, err := c.Rule(cmd.Context(), team, args[0])
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(rule)
			}
			if rule.Text == "" {
				a.Out.Note("%s is not set.", cli.Line(rule.Name, 40))
				return nil
			}
			a.Out.Text(strings.TrimRight(cli.Exact(rule.Text), "\n") + "\n")
			return nil
		},
	}
	cmd.Flags().BoolVar(&team, "team", false, "show the team's rules")
	return cmd
}

// maxRuleFile is the maximum number of bytes that are read of a rule file. The
// server's limit is lower.
const maxRuleFile = 4 << 20

func newRulesSetCommand(a *app) *cobra.Command {
	var team bool
	cmd := &cobra.Command{
		Use:   "set NAME [FILE]",
		Short: "Set a rule",
		Long: `Set a rule: a rule file from FILE or standard input, or the value of run-mode or
deny-after. An empty file removes the rule. Invalid rules are rejected, and the old
ones are kept.`,
		Example: `  aloft rules set run-mode auto-review
  aloft rules set permissions.json .aloft/permissions.json
  aloft rules set --team deny-after 8h
  aloft rules set --team hooks.json < hooks.json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.readRule(args)
			if err != nil {
				return err
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			rule, err := c.SetRule(cmd.Context(), team, args[0], text)
			if err != nil {
				return err
			}
			for _, w := range rule.Warnings {
				a.Out.Note("warning: %s", cli.Line(w, 0))
			}
			if a.Out.JSON() {
				return a.Out.Value(rule)
			}
			if rule.Text == "" {
				a.Out.Line("Removed %s.", cli.Line(rule.Name, 40))
			} else {
				a.Out.Line("Set %s.", cli.Line(rule.Name, 40))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&team, "team", false, "set the team's rule; admins only")
	return cmd
}

func (a *app) readRule(args []string) (string, error) {
	from := a.Stdin
	switch {
	case len(args) == 2 && (args[0] == "run-mode" || args[0] == "deny-after"):
		return args[1], nil
	case len(args) == 2 && args[1] != "-":
		f, err := os.Open(args[1])
		if err != nil {
			return "", command.UsageError(err)
		}
		defer f.Close()
		from = f
	}
	if from == nil {
		return "", command.UsageError(errors.New("no input: give a file, or pipe one to standard input"))
	}
	data, err := io.ReadAll(io.LimitReader(from, maxRuleFile))
	if err != nil {
		return "", fmt.Errorf("read the rules: %w", err)
	}
	return string(data), nil
}
