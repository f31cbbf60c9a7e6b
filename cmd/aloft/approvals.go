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
		Short: "Answer what agents ask",
		Long: `Answer what agents ask: whether they may do something, what you think of a plan,
and questions of their own.

A question waits, over restarts, until it is answered or its run has ended. The
first answer counts. How much agents ask is their run mode's to say: see
'aloft rules'.`,
		Example: `  aloft approvals
  aloft approvals allow apr-…
  aloft approvals deny apr-… -m "use make test"
  aloft approvals answer apr-… PostgreSQL`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listApprovals(cmd.Context()) },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Aliases: []string{"ls"}, Short: "List what waits for your answer, oldest first", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.listApprovals(cmd.Context()) },
		},
		newApprovalsAllowCommand(a), newApprovalsDenyCommand(a), newApprovalsAnswerCommand(a))
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
	if q.Hidden {
		a.out.Line("  %s: the team displays no summaries in lists; `aloft agent show %s` shows what it asks", cli.Line(q.Tool, 40), cli.Line(q.AgentID, 80))
		return
	}
	a.out.Line("  %s: %s", cli.Line(q.Tool, 40), strings.ReplaceAll(strings.TrimSpace(cli.Clean(q.Subject)), "\n", "\n    "))
	for _, line := range q.Lines() {
		a.out.Line("    %s", cli.Clean(line))
	}
	for _, row := range [][2]string{{"a subagent asks", q.Subagent}, {"the agent says", q.Reason}, {"asked because", q.Why}} {
		if row[1] != "" {
			a.out.Line("  %s %s", a.out.Style(cli.Dim, row[0]+":"), cli.Line(row[1], 200))
		}
	}
	if len(q.Entries) > 0 {
		a.out.Line("  %s", a.out.Style(cli.Dim, "rules that would allow it:"))
		for _, rule := range q.Entries {
			a.out.Line("    %s", cli.Line(rule, 0)) // one rule, one line, and whole
		}
	}
	if q.Change != "" {
		words := "would stand there:"
		if q.Tool == client.PlanTool {
			words = "its plan:"
		}
		a.out.Line("  %s\n    %s", a.out.Style(cli.Dim, words), strings.ReplaceAll(strings.TrimRight(cli.Clean(q.Change), "\n"), "\n", "\n    "))
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
		Short: "Let an agent do what it asks, or carry out its plan",
		Long: `Let an agent do what it asks, or carry out its plan: this once, or, with --for-agent, calls like it by
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
			return a.answer(cmd.Context(), args[0], "Allowed.", func(client.Approval) (client.Answer, error) { return in, nil })
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
		Short:   "Forbid an agent what it asks, want another plan, or leave a question to it",
		Example: `  aloft approvals deny apr-… -m "use make test"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.answer(cmd.Context(), args[0], "Denied.", func(client.Approval) (client.Answer, error) {
				return client.Answer{Decision: client.Deny, Message: message}, nil
			})
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "`words` for the agent to read")
	return cmd
}

func newApprovalsAnswerCommand(a *app) *cobra.Command {
	var message string
	cmd := &cobra.Command{
		Use:   "answer ID [QUESTION=]ANSWER…",
		Short: "Answer an agent's own questions",
		Long: `Answer an agent's own questions: by an option, which is named by its number, its id
or its label; by several, with commas between them, where the list says so; or in
words. Where it asks several things, each answer begins with the question's id and
an equals sign. What has no answer the agent decides by itself.`,
		Example: `  aloft approvals answer apr-… 2
  aloft approvals answer apr-… db=PostgreSQL os=1,2 -m "and keep it small"`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && message == "" {
				return misuse(cmd, errors.New("give an answer, or -m with words for all"))
			}
			return a.answer(cmd.Context(), args[0], "Answered.", func(q client.Approval) (client.Answer, error) {
				if len(q.Questions) == 0 {
					return client.Answer{}, misuse(cmd, errors.New("it asks whether it may go on: `aloft approvals allow` or `deny`"))
				}
				in, err := q.Answer(args[1:]...)
				if err != nil {
					return in, misuse(cmd, err)
				}
				in.Message = message
				return in, nil
			})
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "`words` for the agent to read")
	return cmd
}

// answer answers the question of that id, of whichever agent.
func (a *app) answer(ctx context.Context, id, done string, say func(client.Approval) (client.Answer, error)) error {
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
		if q.Hidden {
			if q, err = c.Approval(ctx, q.AgentID, id); err != nil {
				return err
			}
		}
		in, err := say(q)
		if err != nil {
			return err
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
