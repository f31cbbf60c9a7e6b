package main

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

// helperPrompt is what an agent that sets a project up is asked.
const helperPrompt = "Find out how a machine for this repository is to be set up, and propose an environment."

// beginHelper has an agent set the project up, and waits until it has.
func (s *setUp) beginHelper(ctx context.Context, repo client.Repo) error {
	made, run, err := s.c.CreateAgent(ctx, client.NewAgent{
		Prompt: client.Prompt{Text: helperPrompt}, Name: setUpName(repo), Repos: []client.Repo{repo}, Env: &client.Env{Type: "cloud", Preset: client.PresetHelper},
	}, uuid.NewString())
	if err != nil {
		return err
	}
	s.agent = made
	s.showIDs(made.ID, run.ID)
	return s.started(ctx, s.c, made.ID, run.ID, true)
}

// helped goes on with what the agent proposes: it is shown, tried by a build,
// and a person decides. What is not interactive ends with the build.
func (s *setUp) helped(ctx context.Context) error {
	p, err := s.c.ProposedEnvironment(ctx, s.agent.ID)
	if err != nil {
		return err
	}
	s.text = p.JSON
	if s.out.JSON() {
		tried, err := s.c.TryEnvironment(ctx, s.agent.ID, s.text, func(string) {})
		if err != nil {
			return err
		}
		return errors.Join(s.out.Value(struct {
			Proposed client.Proposed `json:"proposed"`
			client.Tried
		}{p, tried}), unlessBuilt(tried.Build))
	}
	s.out.Line("")
	s.out.Line("The agent proposes %s, on the branch %s:", s.out.Style(cli.Bold, cli.Line(p.Path, 80)), s.out.Style(cli.Green, cli.Line(p.Branch, 200)))
	s.show()
	for _, f := range p.Findings {
		s.out.Line("%s", cli.Line(f, 200))
	}
	failed := s.try(ctx)
	if _, _, err := s.needTerminal(); err != nil {
		if failed == nil {
			s.out.Line("Merge the branch %s, and every agent starts from it.", cli.Line(p.Branch, 200))
		}
		return failed
	}
	if failed != nil {
		s.out.Fail(failed)
	}
	return s.ask(ctx)
}

// unlessBuilt is the error of a build that did not succeed.
func unlessBuilt(b client.TriedBuild) error {
	if b.Status == "SUCCEEDED" {
		return nil
	}
	return &cli.Problem{Exit: cli.Failure, Code: "build_failed", Message: cli.Clean(cmp.Or(b.Message, "the build ended in "+b.Status)),
		Hint: "edit the environment, go back to the shell and save again, or tell the agent with `aloft agent follow-up`"}
}

// tellAgent gives the agent more to do, and looks at what it proposes then.
func (s *setUp) tellAgent(ctx context.Context) (bool, error) {
	_, _ = fmt.Fprint(s.stdout, "Tell it: ")
	words, err := s.in.ReadString('\n')
	if words = strings.TrimSpace(words); err != nil || words == "" {
		return false, err
	}
	run, err := s.c.CreateRun(ctx, s.agent.ID, client.Prompt{Text: words}, uuid.NewString())
	if err != nil {
		return false, err
	}
	if err := s.started(ctx, s.c, s.agent.ID, run.ID, true); err != nil {
		return false, err
	}
	return true, s.helped(ctx)
}
