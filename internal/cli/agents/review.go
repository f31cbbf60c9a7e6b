package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
	"aloft/internal/patch"
)

func newReviewCommand(a *app) *cobra.Command {
	var base, pr string
	var model func() (*client.ModelRef, error)
	var limits func() (*client.Amount, error)
	cmd := &cobra.Command{
		Use:   `review ["WHAT TO LOOK FOR"]`,
		Short: "Review the changes of the current checkout, or a pull request",
		Long: `Have an agent review the changes of the current git checkout, and print what it
finds. Nothing is posted, committed or pushed.

The changes are those since the branch left --base: commits, pushed or not, and
uncommitted changes of files that git tracks. They are sent to the server, which
applies them in a machine of their own.

With --pr, the agent reviews a pull request instead, and the server posts the
findings there: one review with comments on the lines, and a status of the commit.
If Aloft has reviewed it before, the agent reviews only what has changed since then.`,
		Example: `  aloft review
  aloft review --base develop "Look for races above all"
  aloft review --pr https://github.com/acme/app/pull/7
  aloft review --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			in := client.NewAgent{Prompt: client.Prompt{Text: "Review the change."}}
			if cmd.Flags().Changed("pr") {
				in.Review = &client.Review{PullRequest: pr}
			} else {
				here, err := a.readCheckout(ctx)
				if err != nil {
					return err
				}
				from, change, err := a.localChange(ctx, here, base)
				if err != nil {
					return err
				}
				in.Repos, in.Review = []client.Repo{{URL: here.repo.URL, StartingRef: from}}, &client.Review{Patch: change}
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if len(args) > 0 && strings.TrimSpace(args[0]) != "" {
				in.Prompt.Text += "\n\n" + args[0]
			}
			if in.Model, err = model(); err != nil {
				return err
			}
			if in.Limits, err = limits(); err != nil {
				return err
			}
			agent, run, err := c.CreateAgent(ctx, in, uuid.NewString())
			if err != nil {
				return err
			}
			return a.showReview(ctx, c, agent, run)
		},
	}
	cmd.Flags().StringVar(&base, "base", "", "`branch` of the remote that the changes are for (default: the remote's default branch)")
	cmd.Flags().StringVar(&pr, "pr", "", "`URL` of an open pull request to review; the findings are posted there")
	cmd.MarkFlagsMutuallyExclusive("base", "pr")
	model = a.AddModelFlags(cmd, "model `id` (default: the first that 'aloft models' lists)", true)
	limits = limitFlags(cmd)
	a.AddOutputFlag(cmd)
	return cmd
}

// localChange returns the changes of the checkout since it diverged from the
// remote's base branch, and the commit at which it diverged.
func (a *app) localChange(ctx context.Context, here checkout, base string) (from, change string, err error) {
	base = cmp.Or(base, "HEAD")
	if from, err = here.git(ctx, "merge-base", "HEAD", "refs/remotes/"+here.remote+"/"+base); err != nil {
		return "", "", command.UsageError(fmt.Errorf("this checkout does not have the branch %s of the remote %s, or the branch shares no commit with HEAD: run git fetch, or name another branch with --base", cli.Line(base, 100), cli.Line(here.remote, 100)))
	}
	args := []string{"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--full-index", "--binary", "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=dirty", from}
	if here.byRoot {
		args = append(args, "HEAD") // reading the working tree runs filters that the checkout's configuration names
	}
	if change, err = here.whole(ctx, args...); err != nil {
		return "", "", err
	}
	switch {
	case change == "":
		return "", "", command.UsageError(errors.New("there are no changes to review"))
	case len(change) > patch.Max:
		return "", "", command.UsageError(fmt.Errorf("the changes have %d KiB; the limit is %d: review a part of them", len(change)>>10, patch.Max>>10))
	}
	if !a.Out.JSON() {
		a.Out.Note("repository: %s, changes since %s", cli.Line(here.repo.URL, 0), cli.Line(from[:min(len(from), 12)], 0))
		if left, err := here.git(ctx, "ls-files", "--others", "--exclude-standard"); err == nil && left != "" {
			a.Out.Note("Not reviewed: %s. `git add -N` makes git track them.", counted(fmt.Sprint(strings.Count(left, "\n")+1), "file that git does not track", "files that git does not track"))
		}
	}
	return from, change, nil
}

// showReview follows the run to its end and prints the findings.
func (a *app) showReview(ctx context.Context, c *client.Client, agent client.Agent, run client.Run) error {
	if a.Out.JSON() {
		for _, err := range c.Stream(ctx, agent.ID, run.ID, "") {
			if err != nil {
				return err
			}
		}
		var err error
		if run, err = c.Run(ctx, agent.ID, run.ID); err != nil {
			return err
		}
		if run.Status != client.Finished {
			return &cli.Problem{Exit: cli.RunFailed, Code: strings.ToLower(run.Status), Message: "the review ended as " + run.Status}
		}
	} else {
		a.ShowIDs(agent.ID, run.ID)
		if err := a.WatchNewRun(ctx, c, agent.ID, run.ID, true); err != nil {
			return err
		}
	}
	found, posted, err := c.Findings(ctx, agent.ID)
	if err != nil {
		return err
	}
	if a.Out.JSON() {
		err = a.Out.Value(struct {
			Agent    client.Agent         `json:"agent"`
			Run      client.Run           `json:"run"`
			Findings []client.Finding     `json:"findings"`
			Posted   *client.PostedReview `json:"posted,omitempty"`
		}{agent, run, found, posted})
	} else {
		a.showFindings(found)
	}
	if posted == nil || err != nil {
		return err
	}
	if posted.Error != "" {
		return &cli.Problem{Exit: cli.RunFailed, Code: "review_not_posted", Message: "the review was not posted: " + posted.Error}
	}
	if !a.Out.JSON() {
		a.Out.Line("Posted: %s", cli.Line(cmp.Or(posted.URL, posted.PullRequest), 0))
		for _, r := range posted.Remarks {
			a.Out.Note("%s", cli.Line(r, 500))
		}
	}
	return nil
}

// severityStyles are the styles in which severities are printed.
var severityStyles = map[string]cli.Style{"high": cli.Red, "medium": cli.Yellow, "low": cli.Dim}

// showFindings prints findings, each with its location, text and suggestion.
func (a *app) showFindings(found []client.Finding) {
	a.Out.Line("")
	if len(found) == 0 {
		a.Out.Line("No findings.")
		return
	}
	for _, f := range found {
		at := fmt.Sprintf("%s:%d", f.Path, f.Line)
		if f.EndLine > f.Line {
			at += fmt.Sprintf("-%d", f.EndLine)
		}
		if f.OldSide {
			at += " (removed)"
		}
		a.Out.Line("%s  %s  %s", a.Out.Style(severityStyles[f.Severity], cli.Line(f.Severity, 10)), a.Out.Style(cli.Bold, cli.Line(at, 300)), cli.Line(f.Title, 300))
		for line := range strings.Lines(f.Body) {
			a.Out.Line("    %s", cli.Line(line, 0))
		}
		if f.Suggestion != "" {
			a.Out.Line("    Suggestion:")
			for line := range strings.Lines(f.Suggestion) {
				a.Out.Line("    + %s", strings.TrimRight(cli.Exact(line), "\n"))
			}
		}
		a.Out.Line("")
	}
	a.Out.Line("%s", counted(fmt.Sprint(len(found)), "finding", "findings"))
}
