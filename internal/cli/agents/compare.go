package agents

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newAgentCompareCommand(a *app) *cobra.Command {
	var diffs bool
	cmd := &cobra.Command{
		Use:   "compare AGENT AGENT...",
		Short: "Compare what agents have done",
		Long: `Compare what agents have done: how their last runs ended, how much they changed,
their last messages and their diffs.`,
		Example: `  aloft agent compare bc-… bc-… | less -R
  aloft agent compare --diff=false bc-… bc-…`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			return a.compare(cmd.Context(), c, args, diffs)
		},
	}
	cmd.Flags().BoolVar(&diffs, "diff", true, "show the diffs")
	return cmd
}

// compared is one agent's result as `compare --json` prints it.
type compared struct {
	AgentID   string          `json:"agentId"`
	RunID     string          `json:"runId"`
	Status    string          `json:"status"`
	Files     int             `json:"files"`
	Added     int             `json:"added"`
	Removed   int             `json:"removed"`
	Result    string          `json:"result,omitempty"`
	Error     *client.Failure `json:"error,omitempty"`
	Diff      string          `json:"diff,omitempty"`
	Truncated bool            `json:"truncated,omitempty"`
}

// compare prints a comparison of the agents with the given IDs.
func (a *app) compare(ctx context.Context, c *client.Client, ids []string, diffs bool) error {
	all := make([]compared, len(ids))
	for i, id := range ids {
		run, err := latestRun(ctx, c, id)
		if err != nil {
			return err
		}
		diff, err := c.Diff(ctx, id)
		if err != nil {
			return err
		}
		all[i] = compared{AgentID: id, RunID: run.ID, Status: run.Status, Result: run.Result, Error: run.Error, Diff: diff.Diff, Truncated: diff.Truncated}
		all[i].Files, all[i].Added, all[i].Removed = diffStat(diff.Diff)
		if !diffs {
			all[i].Diff = ""
		}
	}
	if a.Out.JSON() {
		return a.Out.Value(all)
	}
	rows := [][]string{{"AGENT", "STATUS", "FILES", "+", "-", "LAST MESSAGE"}}
	for _, r := range all {
		words := r.Result
		if r.Error != nil {
			words = r.Error.Message
		}
		rows = append(rows, []string{cli.Line(r.AgentID, 80), cli.Line(r.Status, 20), strconv.Itoa(r.Files), strconv.Itoa(r.Added), strconv.Itoa(r.Removed), cli.Line(words, 80)})
	}
	a.Out.Table(rows)
	for _, r := range all {
		if !diffs || r.Diff == "" {
			continue
		}
		a.Out.Line("")
		a.Out.Line("%s", a.Out.Style(cli.Bold, "=== "+cli.Line(r.AgentID, 80)))
		a.PrintColorDiff(r.Diff)
		if r.Truncated {
			a.Out.Note("The diff of %s is truncated: it is too long to show in full.", cli.Line(r.AgentID, 80))
		}
	}
	return nil
}

// diffStat counts the files and lines that a git diff changes.
func diffStat(diff string) (files, added, removed int) {
	body := false // after a file's header, whose lines begin with +++ and ---
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "diff --git "):
			files++
			body = false
		case strings.HasPrefix(line, "@@"):
			body = true
		case body && strings.HasPrefix(line, "+"):
			added++
		case body && strings.HasPrefix(line, "-"):
			removed++
		}
	}
	return files, added, removed
}
