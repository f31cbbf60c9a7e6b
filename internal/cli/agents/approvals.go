package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newApprovalsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Answer agents' questions and approval requests",
		Long: `Answer agents: approve or deny actions, review plans, and answer questions.

A request waits, even if the server restarts, until it is answered or its run ends.
The first answer counts. ID is a request's id, or the beginning of one, with or
without "apr-". The run mode decides how often agents ask: see 'aloft rules'.`,
		Example: `  aloft approvals
  aloft approvals allow apr-…
  aloft approvals deny apr-… -m "use make test"
  aloft approvals answer apr-… PostgreSQL`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listApprovals(cmd.Context()) },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Aliases: []string{"ls"}, Short: "List requests waiting for your answer, oldest first", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.listApprovals(cmd.Context()) },
		},
		newApprovalsAllowCommand(a), newApprovalsDenyCommand(a), newApprovalsAnswerCommand(a))
	return cmd
}

func (a *app) listApprovals(ctx context.Context) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	all, err := c.Approvals(ctx)
	if err != nil {
		return err
	}
	if a.Out.JSON() {
		return a.Out.Value(struct {
			Items []client.Approval `json:"items"`
		}{append([]client.Approval{}, all...)})
	}
	if len(all) == 0 {
		a.Out.Note("Nothing is waiting for your answer.")
		return nil
	}
	for i, q := range all {
		if i > 0 {
			a.Out.Line("")
		}
		a.Out.Line("%s %s  %s", a.Out.Style(cli.Bold, cli.Line(q.ID, 80)), cli.Line(q.AgentID, 80), a.Out.Style(cli.Dim, cli.Ago(time.Since(q.AskedAt))))
		a.showQuestion(q)
	}
	return nil
}

// showQuestion prints a request. It never truncates the action: the approver
// must see the complete action.
func (a *app) showQuestion(q client.Approval) {
	if q.Hidden {
		a.Out.Line("  %s: hidden, because the team does not show summaries in lists; see `aloft agent show %s`", cli.Line(q.Tool, 40), cli.Line(q.AgentID, 80))
		return
	}
	a.Out.Line("  %s: %s", cli.Line(q.Tool, 40), strings.ReplaceAll(strings.TrimSpace(cli.Exact(q.Subject)), "\n", "\n    "))
	for _, line := range q.Lines() {
		a.Out.Line("    %s", cli.Exact(line))
	}
	if q.Folder != "" {
		a.Out.Line("  %s %s", a.Out.Style(cli.Dim, "folder:"), cli.ExactLine(q.Folder))
	}
	for _, row := range [][2]string{{"a subagent asks", q.Subagent}, {"the agent says", q.Reason}, {"asked because", q.Why}} {
		if row[1] != "" {
			a.Out.Line("  %s %s", a.Out.Style(cli.Dim, row[0]+":"), cli.Line(row[1], 200))
		}
	}
	if len(q.Entries) > 0 {
		a.Out.Line("  %s", a.Out.Style(cli.Dim, "rules that would allow this:"))
		for _, rule := range q.Entries {
			a.Out.Line("    %s", cli.ExactLine(rule)) // never truncated
		}
	}
	if q.Change != "" {
		words := "change:"
		switch q.Tool {
		case client.PlanTool:
			words = "plan:"
		case client.PullRequestTool:
			words = "description:"
		}
		a.Out.Line("  %s\n    %s", a.Out.Style(cli.Dim, words), strings.ReplaceAll(strings.TrimRight(cli.Exact(q.Change), "\n"), "\n", "\n    "))
	}
	if q.Until != nil {
		a.Out.Line("  %s %s", a.Out.Style(cli.Dim, "denied automatically at:"), q.Until.Local().Format(time.DateTime))
	}
}

func newApprovalsAllowCommand(a *app) *cobra.Command {
	var forAgent, always bool
	var entries []string
	cmd := &cobra.Command{
		Use:   "allow ID",
		Short: "Approve an action or a plan",
		Long: `Approve an action or a plan. By default the approval is for this request only. With
--for-agent it also covers similar calls by this agent, and with --always similar
calls by all of your agents. Similar calls are those that match the rules shown in
the list; --entry gives other rules, and may be repeated. --always adds the rules
to your permissions.json: see 'aloft rules show permissions.json'.`,
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
				return command.Misuse(cmd, errors.New("--entry requires --for-agent or --always"))
			}
			return a.answer(cmd.Context(), args[0], "Allowed.", func(client.Approval) (client.Answer, error) { return in, nil })
		},
	}
	cmd.Flags().BoolVar(&forAgent, "for-agent", false, "also approve similar calls by this agent")
	cmd.Flags().BoolVar(&always, "always", false, "also approve similar calls by all of your agents")
	cmd.Flags().StringArrayVar(&entries, "entry", nil, "allowlist `entry` to use instead of the suggested ones; may be repeated")
	cmd.MarkFlagsMutuallyExclusive("for-agent", "always")
	return cmd
}

func newApprovalsDenyCommand(a *app) *cobra.Command {
	var message string
	cmd := &cobra.Command{
		Use:     "deny ID",
		Short:   "Deny an action, reject a plan, or decline a question",
		Example: `  aloft approvals deny apr-… -m "use make test"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.answer(cmd.Context(), args[0], "Denied.", func(client.Approval) (client.Answer, error) {
				return client.Answer{Decision: client.Deny, Message: message}, nil
			})
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "`message` to the agent")
	return cmd
}

func newApprovalsAnswerCommand(a *app) *cobra.Command {
	var message string
	cmd := &cobra.Command{
		Use:   "answer ID [QUESTION=]ANSWER…",
		Short: "Answer an agent's own questions",
		Long: `Answer an agent's own questions. An ANSWER is an option's number, id or label, or
free text. If the question allows several options, separate them with commas. If
there are several questions, write each answer as QUESTION=ANSWER, where QUESTION
is its id. The agent decides questions that you leave out.`,
		Example: `  aloft approvals answer apr-… 2
  aloft approvals answer apr-… db=PostgreSQL os=1,2 -m "and keep it small"`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && message == "" {
				return command.Misuse(cmd, errors.New("give an answer, or a message with -m"))
			}
			return a.answer(cmd.Context(), args[0], "Answered.", func(q client.Approval) (client.Answer, error) {
				if len(q.Questions) == 0 {
					return client.Answer{}, command.Misuse(cmd, errors.New("this is an approval request: use `aloft approvals allow` or `deny`"))
				}
				in, err := q.Answer(args[1:]...)
				if err != nil {
					return in, command.Misuse(cmd, err)
				}
				in.Message = message
				return in, nil
			})
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "`message` to the agent")
	return cmd
}

// answer answers a pending request of any agent. id is the request's id, or a prefix
// of it with or without "apr-".
func (a *app) answer(ctx context.Context, id, done string, say func(client.Approval) (client.Answer, error)) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	all, err := c.Approvals(ctx)
	if err != nil {
		return err
	}
	q, err := findRequest(all, id)
	if err != nil {
		return err
	}
	if q.Hidden {
		if q, err = c.Approval(ctx, q.AgentID, q.ID); err != nil {
			return err
		}
	}
	in, err := say(q)
	if err != nil {
		return err
	}
	if err := c.AnswerApproval(ctx, q.AgentID, q.ID, in); err != nil {
		return err
	}
	if a.Out.JSON() {
		return a.Out.Value(map[string]string{"id": q.ID, "agentId": q.AgentID, "decision": in.Decision})
	}
	a.Out.Line("%s", done)
	return nil
}

// findRequest returns the request whose id is id, or the only one whose id begins with it.
func findRequest(all []client.Approval, id string) (client.Approval, error) {
	prefix := strings.TrimPrefix(id, "apr-")
	var found []client.Approval
	for _, q := range all {
		if q.ID == id {
			return q, nil
		}
		if prefix != "" && strings.HasPrefix(strings.TrimPrefix(q.ID, "apr-"), prefix) {
			found = append(found, q)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return client.Approval{}, &cli.Problem{
			Exit: cli.NotFound, Code: "not_found", Message: fmt.Sprintf("no request %s is waiting for your answer", cli.Line(id, 80)),
			Hint: "it may have been answered already, or its run has ended; list pending requests with `aloft approvals`",
		}
	}
	return client.Approval{}, &cli.Problem{
		Exit: cli.Usage, Code: "ambiguous", Message: fmt.Sprintf("%d pending requests have ids that begin with %s", len(found), cli.Line(id, 80)),
		Hint: "give a longer prefix of the id",
	}
}
