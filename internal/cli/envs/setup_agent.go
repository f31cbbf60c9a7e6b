package envs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// helperPrompt is the task of an agent that sets a project up.
const helperPrompt = "Find out how to set up a machine for this repository, and propose an environment."

// beginHelper starts an agent that sets the project up, and waits for it to finish.
func (s *setUp) beginHelper(ctx context.Context, repo client.Repo) error {
	made, run, err := s.c.CreateAgent(ctx, client.NewAgent{
		Prompt: client.Prompt{Text: helperPrompt}, Name: setUpName(repo), Repos: []client.Repo{repo}, Env: &client.Env{Type: "cloud", Preset: client.PresetHelper},
	}, uuid.NewString())
	if err != nil {
		return err
	}
	s.agent = made
	s.ShowIDs(made.ID, run.ID)
	return s.WatchNewRun(ctx, s.c, made.ID, run.ID, true)
}

// helped prints the agent's proposal, tests it with a build, and asks the person what
// to do next. Without a terminal it ends after the build.
func (s *setUp) helped(ctx context.Context) error {
	p, err := s.c.ProposedEnvironment(ctx, s.agent.ID)
	if err != nil {
		return err
	}
	s.text = p.JSON
	if s.Out.JSON() {
		tried, err := s.c.TryEnvironment(ctx, s.agent.ID, s.text, func(string) {})
		if err != nil {
			return err
		}
		return errors.Join(s.Out.Value(struct {
			Proposed client.Proposed `json:"proposed"`
			client.Tried
		}{p, tried}), unlessBuilt(tried.Build))
	}
	s.Out.Line("")
	s.Out.Line("The agent proposes %s, on branch %s:", s.Out.Style(cli.Bold, cli.Line(p.Path, 80)), s.Out.Style(cli.Green, cli.Line(p.Branch, 200)))
	s.show()
	for _, f := range p.Findings {
		s.Out.Line("%s", cli.Line(f, 200))
	}
	failed := s.try(ctx)
	if _, _, err := s.NeedTerminal(); err != nil {
		if failed == nil {
			s.Out.Line("Agents use it once branch %s is merged.", cli.Line(p.Branch, 200))
		}
		return failed
	}
	if failed != nil {
		s.Out.Fail(failed)
	}
	return s.ask(ctx)
}

// unlessBuilt returns an error if the test build failed.
func unlessBuilt(b client.TriedBuild) error {
	if b.Status == "SUCCEEDED" {
		return nil
	}
	return &cli.Problem{Exit: cli.Failure, Code: "build_failed", Message: cli.Clean(cmp.Or(b.Message, "the build ended as "+b.Status)),
		Hint: "edit the environment, return to the shell and save again, or tell the agent with `aloft agent follow-up`"}
}

// tellAgent sends the agent a follow-up, then handles its new proposal.
func (s *setUp) tellAgent(ctx context.Context) (bool, error) {
	_, _ = fmt.Fprint(s.Stdout, "Message to the agent: ")
	words, err := s.in.ReadString('\n')
	if words = strings.TrimSpace(words); err != nil || words == "" {
		return false, err
	}
	run, err := s.c.CreateRun(ctx, s.agent.ID, client.Prompt{Text: words}, uuid.NewString())
	if err != nil {
		return false, err
	}
	if err := s.WatchNewRun(ctx, s.c, s.agent.ID, run.ID, true); err != nil {
		return false, err
	}
	return true, s.helped(ctx)
}
