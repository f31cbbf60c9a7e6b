package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
)

func newRulesCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Say how much agents may do without asking",
		Long: `Say how much agents may do without asking.

The rules are files that the server keeps for you, and with --team for everybody:

  run-mode          run-everything (the default), auto-review or allowlist
  deny-after        how long a question waits before it counts as denied, as in 8h
  permissions.json  what runs without asking, and words for the classifier
  sandbox.json      what commands in the sandbox may touch
  hooks.json        scripts around what agents do

A repository may have its own, in .aloft or .cursor.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRulesShowCommand(a), newRulesSetCommand(a))
	return cmd
}

func newRulesShowCommand(a *app) *cobra.Command {
	var team bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a file of rules", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			rule, err := c.Rule(cmd.Context(), team, args[0])
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(rule)
			}
			if rule.Text == "" {
				a.out.Note("There is no %s.", cli.Line(rule.Name, 40))
				return nil
			}
			a.out.Text(strings.TrimRight(cli.Clean(rule.Text), "\n") + "\n")
			return nil
		},
	}
	cmd.Flags().BoolVar(&team, "team", false, "the team's")
	return cmd
}

// maxRuleFile bounds what is read of a file of rules; the server takes less.
const maxRuleFile = 4 << 20

func newRulesSetCommand(a *app) *cobra.Command {
	var team bool
	cmd := &cobra.Command{
		Use:   "set NAME [FILE]",
		Short: "Set a file of rules",
		Long: `Set a file of rules, from a file or from standard input; run-mode and deny-after
by their value.
An empty file removes it. What cannot be right is refused, and the old one stays.`,
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
			c, err := a.connect()
			if err != nil {
				return err
			}
			rule, err := c.SetRule(cmd.Context(), team, args[0], text)
			if err != nil {
				return err
			}
			for _, w := range rule.Warnings {
				a.out.Note("warning: %s", cli.Line(w, 0))
			}
			if a.out.JSON() {
				return a.out.Value(rule)
			}
			if rule.Text == "" {
				a.out.Line("Removed %s.", cli.Line(rule.Name, 40))
			} else {
				a.out.Line("Set %s.", cli.Line(rule.Name, 40))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&team, "team", false, "the team's; for the admin")
	return cmd
}

func (a *app) readRule(args []string) (string, error) {
	from := a.stdin
	switch {
	case len(args) == 2 && (args[0] == "run-mode" || args[0] == "deny-after"):
		return args[1], nil
	case len(args) == 2 && args[1] != "-":
		f, err := os.Open(args[1])
		if err != nil {
			return "", usageError{err}
		}
		defer f.Close()
		from = f
	}
	if from == nil {
		return "", usageError{errors.New("there is nothing to read: name a file, or pipe one in")}
	}
	data, err := io.ReadAll(io.LimitReader(from, maxRuleFile))
	if err != nil {
		return "", fmt.Errorf("read the rules: %w", err)
	}
	return string(data), nil
}
