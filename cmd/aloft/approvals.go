package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newApprovalsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Answer what agents ask before they act",
		Long: `Answer what agents ask before they act.

A question waits, over restarts, until it is answered or its run has ended. The
first answer counts. How much agents ask is their run mode's to say: see
'aloft rules'.`,
		Example: `  aloft approvals
  aloft approvals allow apr-…
  aloft approvals deny apr-… -m "use make test"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listApprovals(cmd.Context()) },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Aliases: []string{"ls"}, Short: "List what waits for your answer, oldest first", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.listApprovals(cmd.Context()) },
		},
		newApprovalsAllowCommand(a), newApprovalsDenyCommand(a))
	return cmd
}

func (a *app) listApprovals(ctx context.Context) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	all, err := c.Approvals(ctx)
	if err != nil {
		return err
	}
	if a.out.JSON() {
		return a.out.Value(struct {
			Items []client.Approval `json:"items"`
		}{append([]client.Approval{}, all...)})
	}
	if len(all) == 0 {
		a.out.Note("Nothing waits for you.")
		return nil
	}
	for i, q := range all {
		if i > 0 {
			a.out.Line("")
		}
		a.out.Line("%s %s  %s", a.out.Style(cli.Bold, cli.Line(q.ID, 80)), cli.Line(q.AgentID, 80), a.out.Style(cli.Dim, cli.Ago(time.Since(q.AskedAt))))
		a.showQuestion(q)
	}
	return nil
}

// showQuestion says what an agent asks. What it wants to do is shown whole: who
// allows it is to have seen all of it.
func (a *app) showQuestion(q client.Approval) {
	a.out.Line("  %s: %s", cli.Line(q.Tool, 40), strings.ReplaceAll(strings.TrimSpace(cli.Clean(q.Subject)), "\n", "\n    "))
	for _, row := range [][2]string{{"the agent says", q.Reason}, {"asked because", q.Why}, {"would allow it", strings.Join(q.Entries, ", ")}} {
		if row[1] != "" {
			a.out.Line("  %s %s", a.out.Style(cli.Dim, row[0]+":"), cli.Line(row[1], 200))
		}
	}
	if q.Change != "" {
		a.out.Line("  %s\n    %s", a.out.Style(cli.Dim, "would stand there:"), strings.ReplaceAll(strings.TrimRight(cli.Clean(q.Change), "\n"), "\n", "\n    "))
	}
	if q.Until != nil {
		a.out.Line("  %s %s", a.out.Style(cli.Dim, "counts as denied after:"), q.Until.Local().Format(time.DateTime))
	}
}

func newApprovalsAllowCommand(a *app) *cobra.Command {
	var forAgent, always bool
	var entries []string
	cmd := &cobra.Command{
		Use:   "allow ID",
		Short: "Let an agent do what it asks",
		Long: `Let an agent do what it asks: this once, or, with --for-agent, calls like it by
this agent, or, with --always, by all of your agents. What 'like it' means are the
entries that the list shows; --entry names others, and may be given again.
--always writes them into your permissions.json: 'aloft rules show permissions.json'.`,
		Example: `  aloft approvals allow apr-…
  aloft approvals allow apr-… --always --entry "npm test"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := client.Answer{Decision: client.AllowOnce, Entries: entries}
			switch {
			case forAgent:
				in.Decision = client.AllowAgent
			case always:
				in.Decision = client.AllowAlways
			case len(entries) > 0:
				return misuse(cmd, errors.New("--entry goes with --for-agent or --always"))
			}
			return a.answer(cmd.Context(), args[0], in, "Allowed.")
		},
	}
	cmd.Flags().BoolVar(&forAgent, "for-agent", false, "and calls like it by this agent")
	cmd.Flags().BoolVar(&always, "always", false, "and calls like it by all of your agents")
	cmd.Flags().StringArrayVar(&entries, "entry", nil, "`entry` of the allowlist, instead of those that the question names")
	cmd.MarkFlagsMutuallyExclusive("for-agent", "always")
	return cmd
}

func newApprovalsDenyCommand(a *app) *cobra.Command {
	var message string
	cmd := &cobra.Command{
		Use:     "deny ID",
		Short:   "Forbid an agent what it asks",
		Example: `  aloft approvals deny apr-… -m "use make test"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.answer(cmd.Context(), args[0], client.Answer{Decision: client.Deny, Message: message}, "Denied.")
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "`words` for the agent to read")
	return cmd
}

// answer answers the question of that id, of whichever agent.
func (a *app) answer(ctx context.Context, id string, in client.Answer, done string) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	all, err := c.Approvals(ctx)
	if err != nil {
		return err
	}
	for _, q := range all {
		if q.ID != id {
			continue
		}
		if err := c.AnswerApproval(ctx, q.AgentID, id, in); err != nil {
			return err
		}
		if a.out.JSON() {
			return a.out.Value(map[string]string{"id": id, "agentId": q.AgentID, "decision": in.Decision})
		}
		a.out.Line("%s", done)
		return nil
	}
	return &cli.Problem{
		Exit: cli.NotFound, Code: "not_found", Message: fmt.Sprintf("no question %s waits for you", cli.Line(id, 80)),
		Hint: "`aloft approvals` lists what waits; this one may have been answered, or its run has ended",
	}
}
