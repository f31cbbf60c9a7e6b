package agents

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/agent"
	"aloft/internal/cli"
	"aloft/internal/client"
)

func newAgentShowCommand(a *app) *cobra.Command {
	var rules bool
	cmd := &cobra.Command{
		Use:   "show AGENT",
		Short: "Show an agent and its runs",
		Long: `Show an agent and its runs.

With --context, show also which rules its model was given: from AGENTS.md and other
files of the repository, from the team and from its owner.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			ctx, id := cmd.Context(), args[0]
			agent, err := c.Agent(ctx, id)
			if err != nil {
				return err
			}
			runs, err := c.Runs(ctx, id, maxPage, "")
			if err != nil {
				return err
			}
			journal, err := c.Journal(ctx, id)
			if err != nil {
				return err
			}
			servers, err := c.AgentMCPServers(ctx, id)
			if err != nil {
				return err
			}
			shortages, err := shortagesOf(ctx, c, id)
			if err != nil {
				return err
			}
			var given *client.Context
			if rules {
				all, err := c.Context(ctx, id)
				if err != nil {
					return err
				}
				given = &all
			}
			if a.Out.JSON() {
				return a.Out.Value(struct {
					Agent client.Agent            `json:"agent"`
					Runs  []client.Run            `json:"runs"`
					Usage client.TokenUsage       `json:"usage"`
					Turns int                     `json:"turns"`
					Todos []client.Todo           `json:"todos"`
					MCP   []client.AgentMCPServer `json:"mcpServers,omitempty"`
					Rules *client.Context         `json:"context,omitempty"`
					Short []shortage              `json:"shortages,omitempty"`
				}{agent, runs.Items, journal.Usage, journal.Turns, journal.Todos, servers, given, shortages})
			}
			a.showAgent(agent, journal)
			for _, s := range shortages {
				a.Out.Line("")
				a.Out.Line("%s %s", a.Out.Style(cli.Yellow, cli.Ago(time.Since(s.Time))+":"), cli.Line(s.Message, 0))
			}
			a.showRuns(runs)
			a.showMCPServers(servers)
			if given != nil {
				a.showContext(*given)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&rules, "context", false, "show the rules that its model was given")
	return cmd
}

// shortage is an event that the agent's machine ran out of memory or disk space.
type shortage struct {
	Kind    string    `json:"kind"`
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
}

// mostShortages is how many of the latest shortages are shown.
const mostShortages = 3

// shortagesOf returns the latest shortages among the last events of an agent.
func shortagesOf(ctx context.Context, c *client.Client, id string) (all []shortage, err error) {
	for e, err := range c.EventsIn(ctx, id, client.Part{Last: client.MostLast}, false) {
		if err != nil {
			return nil, err
		}
		body, err := agent.Decode(e.Kind, e.Data)
		if err != nil {
			continue // a newer server may send other kinds
		}
		switch b := body.(type) {
		case *agent.MachineOutOfMemory:
			all = append(all, shortage{e.Kind, e.Time, b.Message})
		case *agent.MachineDiskFull:
			all = append(all, shortage{e.Kind, e.Time, b.Message})
		}
	}
	return all[max(0, len(all)-mostShortages):], nil
}

func (a *app) showAgent(agent client.Agent, journal client.Journal) {
	usage := journal.Usage
	field := func(name, value string) {
		if value = cli.Line(value, 0); value != "" {
			a.Out.Line("%s %s", a.Out.Style(cli.Bold, fmt.Sprintf("%-11s", name+":")), value)
		}
	}
	field("agent", agent.ID)
	field("name", agent.Name)
	status := strings.ToLower(agent.Status)
	if agent.Paused {
		status += " (paused; resume it with `aloft agent resume`)"
	}
	field("status", status)
	field("run mode", agent.RunMode)
	machine := agent.Machine
	if machine == "hibernated" {
		what := "on its disk"
		if agent.Hibernation == "live" {
			what = "with its processes"
		}
		machine += " " + what + "; a follow-up, a terminal or a port forward wakes it"
	}
	field("machine", machine)
	for _, p := range agent.Ports {
		field("port", strings.TrimSpace(fmt.Sprintf("%d %s", p.Port, p.Name)))
	}
	for _, repo := range agent.Repos {
		from := repo.URL
		if repo.StartingRef != "" {
			from += " at " + repo.StartingRef
		}
		field("repository", from)
	}
	for _, p := range agent.PullRequests {
		field("pull request", pullLine(p))
	}
	field("created", agent.CreatedAt.Local().Format(time.DateTime)+" ("+cli.Ago(time.Since(agent.CreatedAt))+")")
	if agent.DeletedAt != nil {
		field("deleted", agent.DeletedAt.Local().Format(time.DateTime)+", unless it gets a follow-up first")
	}
	if journal.Turns > 0 {
		field("turns", strconv.Itoa(journal.Turns))
	}
	field("tokens", fmt.Sprintf("%d (%d in, %d out, %d from cache)", usage.TotalTokens,
		usage.InputTokens+usage.CacheWriteTokens, usage.OutputTokens, usage.CacheReadTokens))
	field("cost", usage.String())
	field("hidden", strings.Join(agent.CursorIgnore, " "))
	field("page", agent.URL)
	if len(journal.Todos) > 0 {
		done, now := 0, ""
		for _, t := range journal.Todos {
			switch t.Status {
			case "completed":
				done++
			case "in_progress":
				now = ": " + t.Content
			}
		}
		field("to do", fmt.Sprintf("%d of %d done%s", done, len(journal.Todos), now))
	}
	for _, q := range agent.Approvals {
		a.Out.Line("")
		verbs := "allow|deny"
		if len(q.Questions) > 0 {
			verbs = "answer"
		}
		a.Out.Line("%s", a.Out.Style(cli.Yellow, "Waiting for your answer: aloft approvals "+verbs+" "+cli.Line(q.ID, 80)))
		a.showQuestion(q)
	}
}

// showOutcome prints the outcome of a run and the results of its checks.
func (a *app) showOutcome(run client.Run) {
	if run.Outcome == "" {
		return
	}
	a.Out.Line("")
	a.Out.Line("%s %s", a.Out.Style(cli.Bold, "outcome:"), cli.OutcomeText(run.Outcome, run.Evidence))
	if run.Evidence == nil {
		return
	}
	for _, r := range run.Evidence.Checks {
		a.Out.Check(r)
	}
	if run.Evidence.Goal != nil {
		a.Out.Goal(*run.Evidence.Goal)
	}
	for _, b := range run.Evidence.Bugfixes {
		a.Out.Bugfix(b)
	}
}

func (a *app) showRuns(runs client.RunPage) {
	if len(runs.Items) == 0 {
		return
	}
	a.Out.Line("")
	rows := [][]string{{"RUN", "STATUS", "TOOK", "BRANCH"}}
	for _, run := range runs.Items {
		took := time.Since(run.CreatedAt)
		if run.DurationMS != nil {
			took = time.Duration(*run.DurationMS) * time.Millisecond
		}
		branch := ""
		if run.Git != nil && len(run.Git.Branches) > 0 {
			branch = run.Git.Branches[0].Branch
		}
		rows = append(rows, []string{cli.Line(run.ID, 80), cli.Line(run.Status, 20), cli.Took(took), cli.Line(branch, 80)})
	}
	a.Out.Table(rows)
	latest := runs.Items[0]
	a.showOutcome(latest)
	if of := latest.Limited(); of != "" {
		a.Out.Line("")
		a.Out.Line("%s %s", a.Out.Style(cli.Bold, "limits:"), of)
	}
	if latest.Error != nil {
		a.Out.Line("")
		a.Out.Line("%s %s", a.Out.Style(cli.Red, cli.Line(latest.Error.Code, 60)+":"), cli.Line(latest.Error.Message, 0))
	} else if latest.Result != "" {
		a.Out.Line("")
		a.Out.Line("%s", strings.TrimSpace(cli.Clean(latest.Result)))
	}
}
