package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"aloft/internal/agent"
	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
	"aloft/internal/server"
)

// demoPrompt is the task of the demo agent.
const demoPrompt = "The tests of this project fail. Find out why, fix slug.sh, and run `make test` to see that they pass."

// demoPackages and demoDocker are the parts of the demo's follow-up, for
// projects that need more than the image contains.
const (
	demoPackages = "Now install the package hello with apt, and run it."
	demoDocker   = " Then start Docker, and run it in a container."
)

// demoCheck must pass on the commit of the demo agent.
const demoCheck = "make test"

func newDemoCommand(a *app) *cobra.Command {
	var stay bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run one agent on a sample repository, from the prompt to the pushed branch",
		Long: `Run one agent on a sample repository, from the prompt to the pushed branch.

It starts its own server on free ports, with its data in a temporary folder, serves
a small project with a failing test, and removes everything at the end. In a
second run, the agent installs a package with apt and runs a container with Docker,
as far as machines on this host can. The demo uses a real model if ANTHROPIC_API_KEY or OPENAI_API_KEY is set, or if an OpenAI-compatible
server listens at 127.0.0.1:11434; otherwise it uses a scripted one.

On a terminal, it prints a link to the dashboard, where you can watch the agent and
send it follow-ups, and the server keeps running until you press Ctrl-C.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("stay") {
				stay = cli.IsTerminal(a.Stdout) && !a.Out.JSON()
			}
			return a.demo(cmd.Context(), stay)
		},
	}
	cmd.Flags().BoolVar(&stay, "stay", false, "keep the server running until Ctrl-C, and print a link to its dashboard (default: true on a terminal)")
	return cmd
}

func (a *app) demo(ctx context.Context, stay bool) (err error) {
	if os.Geteuid() != 0 {
		return &cli.Problem{Exit: cli.Failure, Code: "not_root", Message: "creating machines requires root", Hint: "run `sudo -E aloft demo`"}
	}
	dir, err := os.MkdirTemp("", "aloft-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	repo, err := newDemoRepo(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()

	config := server.DefaultConfig()
	config.Machine.Docker = true
	config.Outbound.Open = []string{"127.0.0.1/32"} // the sample repository is served on this address
	var words string
	config.Models[0], words = a.demoModel(ctx)
	a.Out.Note("%s", words)
	data := filepath.Join(dir, "data")
	logFile, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return err
	}
	defer logFile.Close()
	s, err := server.Open(ctx, server.Options{Data: data, Listen: "127.0.0.1:0", Embedded: a.Embedded, Version: a.Version}, config, slog.New(slog.NewTextHandler(logFile, nil)))
	if err != nil {
		return err
	}
	// After an interrupt, the server continues until the cleanup is done.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- s.Run(serving) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	key, err := os.ReadFile(s.KeyFile)
	if err != nil {
		return err
	}
	c, err := client.New(s.URL, strings.TrimSpace(string(key)))
	if err != nil {
		return err
	}
	a.Out.Note("server at %s, repository at %s\n", s.URL, repo.URL)
	// Delete agents created in the dashboard too: stopping the server does not
	// stop machines.
	defer func() { err = errors.Join(err, deleteAgents(context.WithoutCancel(ctx), c)) }()
	if err := a.demoAgent(ctx, c, repo, filepath.Join(dir, "check")); err != nil || !stay {
		return err
	}
	a.Out.Line("\n%s %s\n", a.Out.Style(cli.Bold, "Open the dashboard:"), a.Out.Style(cli.Green, s.FirstLink(ctx)))
	a.Out.Note("The link works once. Ctrl-C stops the server and removes everything.")
	<-ctx.Done()
	return nil
}

// deleteAgents deletes all agents of the server.
func deleteAgents(ctx context.Context, c *client.Client) error {
	for {
		page, err := c.FindAgents(ctx, 100, "", client.AgentFilter{Archived: true, Everybody: true})
		if err != nil || len(page.Items) == 0 {
			return err
		}
		for _, one := range page.Items {
			if err := c.DeleteAgent(ctx, one.ID); err != nil {
				return err
			}
		}
	}
}

// demoAgent runs the agent and prints its work.
func (a *app) demoAgent(ctx context.Context, c *client.Client, repo *demoRepo, dir string) error {
	a.Out.Line("%s aloft run --repo %s --check %q %q\n", a.Out.Style(cli.Bold, "$"), repo.URL, demoCheck, demoPrompt)
	agent, run, err := c.CreateAgent(ctx, client.NewAgent{
		Prompt: client.Prompt{Text: demoPrompt}, Repos: []client.Repo{{URL: repo.URL}}, Checks: []string{demoCheck},
	}, uuid.NewString())
	if err != nil {
		return err
	}
	t, has, err := a.demoRun(ctx, c, agent.ID, run.ID)
	if err != nil {
		return err
	}
	if t.Ended == nil || t.Ended.Status != client.Finished || len(t.Branches) == 0 {
		return a.ShowOutcome(agent.ID, t)
	}
	branch := t.Branches[0].Branch
	diff, err := repo.Diff(branch)
	if err != nil {
		return err
	}
	a.Out.Line("\n%s branch %s, with these changes:\n", a.Out.Style(cli.Bold, "Pushed:"), a.Out.Style(cli.Green, branch))
	a.PrintColorDiff(diff)
	tests, testErr := repo.Test(branch, dir)
	a.Out.Line("\n%s make test in a fresh clone of the branch:\n\n%s", a.Out.Style(cli.Bold, "Checked:"), cli.Clean(tests))
	if testErr != nil {
		return fmt.Errorf("the tests still fail on %s: %w", branch, testErr)
	}
	if err := a.demoMachine(ctx, c, agent.ID, has); err != nil {
		return err
	}
	a.Out.Line("%s", a.Out.Style(cli.Bold, "Next steps:"))
	for _, row := range [][2]string{
		{"start a server", "sudo bin/aloft serve"},
		{"give it a task", `sudo bin/aloft run --repo URL "what to do"`},
		{"check this host", "sudo bin/aloft doctor"},
		{"learn how it works", "ARCHITECTURE.md"},
	} {
		a.Out.Line("  %s %s", a.Out.Style(cli.Dim, fmt.Sprintf("%-26s", row[0]+":")), row[1])
	}
	return nil
}

// demoRun shows a run of the demo agent until it ends. The result has lists the
// capabilities of the agent's machine, or none if the server does not name
// them.
func (a *app) demoRun(ctx context.Context, c *client.Client, agentID, runID string) (t *cli.Transcript, has agent.Facilities, err error) {
	t = cli.NewTranscript(a.Out)
	err = a.Transcribe(ctx, t, c, command.Journal{AgentID: agentID, Follow: true}, func(e client.Event) (show, end bool) {
		body, _ := agent.Decode(e.Kind, e.Data) // a newer server may send other kinds
		if ready, ok := body.(*agent.MachineReady); ok && ready.Facilities != nil {
			has = *ready.Facilities
		}
		return e.RunID == runID, e.RunID == runID && t.Ended != nil
	})
	return t, has, err
}

// demoMachine makes the agent install a package and run a container, or prints
// why its machine cannot.
func (a *app) demoMachine(ctx context.Context, c *client.Client, agentID string, has agent.Facilities) error {
	if has.PackageManager != "apt-get" || !has.Root {
		a.Out.Line("%s not in this demo: machines with this host's system need apt and sudo on the host.\n", a.Out.Style(cli.Bold, "Packages and Docker:"))
		return nil
	}
	prompt := demoPackages
	if has.Docker != "refused" {
		prompt += demoDocker
	}
	a.Out.Line("%s aloft agent follow-up %s %q\n", a.Out.Style(cli.Bold, "$"), agentID, prompt)
	run, err := c.CreateRun(ctx, agentID, client.Prompt{Text: prompt}, uuid.NewString())
	if err != nil {
		return err
	}
	t, _, err := a.demoRun(ctx, c, agentID, run.ID)
	if err != nil {
		return err
	}
	if t.Ended == nil || t.Ended.Status != client.Finished {
		return a.ShowOutcome(agentID, t)
	}
	a.Out.Line("")
	if has.Docker == "refused" {
		a.Out.Line("%s not in machines on this host; `sudo bin/aloft doctor` says why.\n", a.Out.Style(cli.Bold, "Docker:"))
	}
	return nil
}

// demoModel returns the best model available without configuration, and a line
// that names the model.
func (a *app) demoModel(ctx context.Context) (server.ModelConfig, string) {
	if m, variable := server.ModelOfKey(a.Getenv); variable != "" {
		return m, "model: " + m.Name + ", with " + variable
	}
	if m, ok := server.LocalModel(ctx, server.LocalModels); ok {
		return m, "model: " + cli.Line(m.Name, 100) + ", of the server at " + m.BaseURL
	}
	return server.ModelConfig{ID: "scripted", Provider: "scripted", Name: "scripted"},
		"model: scripted. It follows a fixed script. Set ANTHROPIC_API_KEY or OPENAI_API_KEY to use a real model."
}
