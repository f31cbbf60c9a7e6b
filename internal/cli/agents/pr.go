package agents

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newAgentPRCommand(a *app) *cobra.Command {
	var in client.NewPullRequest
	var open, web, dryRun bool
	var bodyFile string
	cmd := &cobra.Command{
		Use:   "pr AGENT",
		Short: "Show an agent's pull requests, or open one",
		Long: `Show an agent's pull requests with their checks, or open one.

If the branch already has a pull request, --open with --title or --body-file
updates it. Without them, the title and body are generated from the agent's last
message, its commits and the project's template. --dry-run prints them without
opening a pull request.`,
		Example: `  aloft agent pr bc-…
  aloft agent pr bc-… --open --dry-run
  aloft agent pr bc-… --open --draft
  aloft agent pr bc-… --open --title "Fix the parser" --body-file -
  xdg-open $(aloft agent pr bc-… --web)`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !open && (in != client.NewPullRequest{} || bodyFile != "" || dryRun) {
				return command.Misuse(cmd, errors.New("--repo, --title, --body-file, --base, --draft and --dry-run require --open"))
			}
			if bodyFile != "" {
				var err error
				if in.Body, err = a.readBody(bodyFile); err != nil {
					return err
				}
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			var all []client.PullRequest
			switch {
			case dryRun:
				would, err := c.ProposePullRequest(cmd.Context(), args[0], in.RepoURL)
				if err != nil {
					return err
				}
				return a.showProposal(would, in)
			case open:
				one, err := c.OpenPullRequest(cmd.Context(), args[0], in, uuid.NewString())
				if err != nil {
					return err
				}
				all = []client.PullRequest{one}
			default:
				if all, err = c.PullRequests(cmd.Context(), args[0]); err != nil {
					return err
				}
			}
			return a.showPulls(args[0], all, open, web)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&open, "open", false, "open a pull request, or update the existing one")
	flags.StringVar(&in.RepoURL, "repo", "", "`URL` of one of the agent's repositories (default: the first with pushed commits)")
	flags.StringVar(&in.Title, "title", "", "one-line `title`")
	flags.StringVar(&bodyFile, "body-file", "", "`file` with the description, as Markdown; - is standard input")
	flags.StringVar(&in.Base, "base", "", "`branch` to merge into (default: the branch that the agent started from)")
	flags.BoolVar(&in.Draft, "draft", false, "open it as a draft")
	flags.BoolVar(&dryRun, "dry-run", false, "print the pull request without opening it")
	flags.BoolVar(&web, "web", false, "print only the URL")
	return cmd
}

// maxBody is the maximum number of bytes that are read of a description. The
// server has its own limit.
const maxBody = 1 << 20

func (a *app) readBody(file string) (string, error) {
	from := a.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", command.UsageError(fmt.Errorf("description: %w", err))
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxBody))
	if err != nil {
		return "", fmt.Errorf("read the description: %w", err)
	}
	if strings.TrimSpace(string(text)) == "" {
		return "", command.UsageError(errors.New("the description is empty: omit --body-file to generate one"))
	}
	return string(text), nil
}

// showProposal prints the pull request that would be opened: the fields that
// are set in asked, and the server's values for the other fields.
func (a *app) showProposal(would, asked client.NewPullRequest) error {
	would.Title, would.Body, would.Base = cmp.Or(asked.Title, would.Title), cmp.Or(asked.Body, would.Body), cmp.Or(asked.Base, would.Base)
	would.Draft = asked.Draft
	if a.Out.JSON() {
		return a.Out.Value(would)
	}
	a.Out.Line("%s", a.Out.Style(cli.Bold, cli.Line(would.Title, 0)))
	a.Out.Line("%s", a.Out.Style(cli.Dim, cli.Line(would.RepoURL+", into "+would.Base, 0)))
	a.Out.Line("\n%s", cli.Exact(would.Body))
	return nil
}

func (a *app) showPulls(agentID string, all []client.PullRequest, opened, web bool) error {
	if a.Out.JSON() && opened {
		return a.Out.Value(all[0])
	}
	if a.Out.JSON() {
		return a.Out.Value(map[string]any{"items": append([]client.PullRequest{}, all...)})
	}
	there := false
	for _, p := range all {
		there = there || p.URL != ""
		if web {
			if p.URL != "" {
				a.Out.Line("%s", cli.Line(p.URL, 0))
			}
			continue
		}
		a.Out.Line("%s", cli.Line(pullLine(p), 0))
		if p.Title != "" {
			a.Out.Line("  %s", a.Out.Style(cli.Bold, cli.Line(p.Title, 200)))
		}
		a.Out.Line("  %s", a.Out.Style(cli.Dim, cli.Line(strings.TrimSuffix(p.Branch+" into "+p.Base, " into "), 200)))
		if text := reviewText(p); text != "" {
			a.Out.Line("  %s", text)
		}
		for _, check := range p.Checks {
			style := map[string]cli.Style{"success": cli.Green, "failure": cli.Red, "pending": cli.Yellow}[check.State]
			a.Out.Line("  %s  %s", a.Out.Style(style, fmt.Sprintf("%-7s", check.State)), cli.Line(strings.TrimSpace(check.Name+"  "+check.Summary), 200))
		}
		for _, failure := range []*client.Failure{p.Error, p.ReviewError, p.Unseen} {
			if failure != nil {
				a.Out.Line("  %s", a.Out.Style(cli.Yellow, cli.Line(failure.Message, 400)))
			}
		}
	}
	if !there && web {
		return &cli.Problem{Exit: cli.Failure, Code: "no_pull_request", Message: "the agent has no pull request", Hint: "open one with aloft agent pr " + agentID + " --open"}
	}
	if !there {
		a.Out.Note("No pull request. Open one with aloft agent pr %s --open", cli.Line(agentID, 80))
	}
	return nil
}

// pullLine formats a pull request on one line.
func pullLine(p client.PullRequest) string {
	if p.URL == "" {
		return "none of " + p.Branch
	}
	state := p.State
	if p.Draft && state == "open" {
		state = "draft"
	}
	if p.ChecksState != "" {
		state += ", checks: " + p.ChecksState
	}
	return p.URL + " (" + state + ")"
}

// reviewText describes the reviews of a pull request in a few words.
func reviewText(p client.PullRequest) string {
	var parts []string
	if words := map[string]string{"approved": "approved", "changes_requested": "changes requested"}[p.Review]; words != "" {
		parts = append(parts, words)
	}
	switch p.OpenThreads {
	case 0:
	case 1:
		parts = append(parts, "1 unresolved thread")
	default:
		parts = append(parts, fmt.Sprintf("%d unresolved threads", p.OpenThreads))
	}
	return strings.Join(parts, ", ")
}
