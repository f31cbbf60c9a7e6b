package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aloft/internal/cli"
	"aloft/internal/client"
	"aloft/internal/environment"
)

func newEnvSetupCommand(a *app) *cobra.Command {
	var image, ref string
	var resume, helper bool
	cmd := &cobra.Command{
		Use:   "setup [REPO]",
		Short: "Set up a machine for a repository, and make an environment of it",
		Long: `Set up a machine for a repository, and make an environment of it.

It opens a shell in a machine with a checkout of the repository. Install what the
project needs there, and leave the shell: then the disk can be saved, an
environment.json is proposed, tried by a build, and committed to a branch or kept
for you alone. The machine is there until you discard it: a terminal that was lost,
or a server that was started anew, costs nothing.

With --agent an agent finds out what the project needs and proposes an
environment.json on a branch, which is tried by a build and then yours to decide
about. Without a terminal the command ends there, with 0 if it can be built.`,
		Example: `  aloft env setup https://git.example.com/team/app
  aloft env setup https://git.example.com/team/app --image debian:12
  aloft env setup --resume
  aloft env setup https://git.example.com/team/app --agent`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case resume == (len(args) == 1):
				return misuse(cmd, errors.New("give the URL of a repository, or --resume"))
			case helper && (resume || image != ""):
				return misuse(cmd, errors.New("--agent goes with neither --resume nor --image"))
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			s := &setUp{app: a, c: c, in: bufio.NewReader(a.stdin), flags: cmd.InheritedFlags()}
			switch {
			case resume:
				err = s.find(ctx)
			case helper:
				err = s.beginHelper(ctx, client.Repo{URL: args[0], StartingRef: ref})
			default:
				err = s.begin(ctx, client.Repo{URL: args[0], StartingRef: ref}, image)
			}
			switch {
			case err != nil:
				return err
			case s.agent.Env.Preset == client.PresetHelper:
				return s.helped(ctx)
			}
			return s.work(ctx)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&image, "image", "", "`image` to begin with, such as debian:12; what the repository's environment begins with unless given")
	flags.StringVar(&ref, "ref", "", "`ref` to check out; the default branch unless given")
	flags.BoolVar(&resume, "resume", false, "go on with the machine that you set up last")
	flags.BoolVar(&helper, "agent", false, "let an agent do it")
	return cmd
}

// setUp is a person's conversation with a machine that they set up. All that
// lasts of it is on the server.
type setUp struct {
	*app
	c     *client.Client
	in    *bufio.Reader
	flags *pflag.FlagSet // that say which server this is
	agent client.Agent
	text  string // of the environment, "" before there was a snapshot
	tried string // the text that was built last
}

func setUpName(repo client.Repo) string {
	return "Set up " + cli.Line(repo.URL[strings.LastIndexByte(repo.URL, '/')+1:], 60)
}

// begin makes a machine.
func (s *setUp) begin(ctx context.Context, repo client.Repo, image string) error {
	made, run, err := s.c.CreateAgent(ctx, client.NewAgent{
		Prompt: client.Prompt{Text: "Set up a machine."}, Name: setUpName(repo), Repos: []client.Repo{repo},
		Env: &client.Env{Type: "cloud", Preset: client.PresetSetUp, Image: image},
	}, uuid.NewString())
	if err != nil {
		return err
	}
	s.agent = made
	if s.out.JSON() {
		return s.followStream(ctx, s.c, made.ID, run.ID)
	}
	t := cli.NewTranscript(s.out)
	if err := s.transcribe(ctx, t, s.c, made.ID, client.Part{}, true, func(e client.Event) (show, end bool) {
		return e.RunID == run.ID && e.Kind != "run.created", t.Ended != nil
	}); err != nil {
		return err
	}
	if t.Ended != nil && t.Ended.Failure != nil {
		return &cli.Problem{Exit: cli.RunFailed, Code: t.Ended.Failure.Code, Message: t.Ended.Failure.Message, Hint: t.Ended.Hint}
	}
	return nil
}

// find returns to the machine that was set up last.
func (s *setUp) find(ctx context.Context) error {
	list, err := s.c.Agents(ctx, 100, "", false)
	if err != nil {
		return err
	}
	for _, one := range list.Items {
		if one.Env.Preset == client.PresetSetUp || one.Env.Preset == client.PresetHelper {
			s.agent, err = s.c.Agent(ctx, one.ID)
			return err
		}
	}
	return &cli.Problem{Exit: cli.Failure, Code: "not_found", Message: "there is no machine that you set up", Hint: "begin with `aloft env setup REPO`"}
}

// work is the shell and what comes after it, until the person has had enough.
func (s *setUp) work(ctx context.Context) error {
	if s.out.JSON() {
		return s.out.Value(map[string]string{"agentId": s.agent.ID})
	}
	s.out.Line("")
	s.out.Line("The machine is ready: %s", s.out.Style(cli.Bold, s.agent.ID))
	if _, _, err := s.needTerminal(); err != nil {
		s.out.Line("This is no terminal. Go on in one with `aloft env setup --resume`, or enter with `aloft agent ssh %s`.", s.agent.ID)
		return nil //nolint:nilerr // it has been said
	}
	s.out.Line("Install what the project needs: you are its user, with sudo. The checkout is in /workspace.")
	s.out.Line("An editor or a second shell enters with `aloft agent ssh %s` (`aloft config-ssh` for IDEs).", s.agent.ID)
	s.out.Line("Leave the shell with Ctrl-B D, or exit, when you are done or want to stop for now.")
	if !s.confirm("Open the shell?") {
		return s.ask(ctx)
	}
	if err := s.shell(ctx); err != nil {
		return err
	}
	return s.ask(ctx)
}

// shell attaches to the shared terminal, in a process of its own: what reads the
// keys there cannot be told to stop.
func (s *setUp) shell(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"agent", "attach", s.agent.ID}
	s.flags.Visit(func(f *pflag.Flag) { args = append(args, "--"+f.Name+"="+f.Value.String()) })
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		s.out.Note("The terminal ended: %v. The machine is still there.", err)
	}
	return context.Cause(ctx)
}

// choice is one thing that a person can do next. do returns true at the end.
type choice struct {
	key, words string
	do         func(context.Context) (bool, error)
}

// ask offers what can be done until there is nothing more to do. What fails is
// told, and asked about again: nothing is lost.
func (s *setUp) ask(ctx context.Context) error {
	for {
		choices := []choice{{"s", "save the disk, and propose an environment.json", s.save}}
		if s.text != "" {
			choices = []choice{
				{"c", "try it by a build, commit it to a branch and push that", s.commit},
				{"p", "try it by a build, and keep it for you alone", s.keep},
				{"t", "only try it by a build", func(ctx context.Context) (bool, error) { return false, s.try(ctx) }},
				{"e", "edit it", s.edit},
				{"s", "save the disk again", s.save},
			}
		}
		if s.agent.Env.Preset == client.PresetHelper {
			choices = append(choices, choice{"f", "tell the agent what is to be different", s.tellAgent})
		}
		choices = append(choices, choice{"b", "back to the shell", func(ctx context.Context) (bool, error) { return false, s.shell(ctx) }},
			choice{"l", "leave it for later", s.leave}, choice{"d", "discard the machine", s.discard})
		s.out.Line("")
		for _, c := range choices {
			s.out.Line("  %s  %s", s.out.Style(cli.Bold, c.key), c.words)
		}
		answer, err := s.line("What now? ")
		if err != nil {
			_, err = s.leave(ctx)
			return err
		}
		known := false
		for _, c := range choices {
			if c.key != answer {
				continue
			}
			known = true
			end, err := c.do(ctx)
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			if err != nil {
				s.out.Fail(err)
			} else if end {
				return nil
			}
		}
		if !known && answer != "" {
			s.out.Line("%q is none of these letters.", cli.Line(answer, 20))
		}
	}
}

// line asks for a line.
func (s *setUp) line(prompt string) (string, error) {
	_, _ = fmt.Fprint(s.stdout, prompt)
	text, err := s.in.ReadString('\n')
	return strings.ToLower(strings.TrimSpace(text)), err
}

func (s *setUp) confirm(question string) bool {
	answer, err := s.line(question + " [Y/n] ")
	return err == nil && (answer == "" || strings.HasPrefix(answer, "y"))
}

func (s *setUp) save(ctx context.Context) (bool, error) {
	s.out.Line("Saving the disk. Whoever is in the machine is cut off, and its processes end.")
	snapshot, err := s.c.CreateSnapshot(ctx, s.agent.ID)
	if err != nil {
		return false, err
	}
	s.text = snapshot.JSON
	s.out.Line("Saved: %s", s.out.Style(cli.Green, cli.Line(snapshot.ID, 80)))
	s.show()
	for _, why := range snapshot.Why {
		s.out.Line("  %s", s.out.Style(cli.Dim, cli.Line(why, 120)))
	}
	return false, nil
}

func (s *setUp) show() {
	s.out.Line("")
	s.out.Text(cli.Clean(s.text))
}

// try builds the environment.
func (s *setUp) try(ctx context.Context) error {
	if s.tried == s.text {
		return nil
	}
	s.out.Line("Trying it by a build.")
	tried, err := s.c.TryEnvironment(ctx, s.agent.ID, s.text, func(news string) { s.out.Status(cli.Line(news, 100)) })
	s.out.Status("")
	if err != nil {
		return err
	}
	for _, f := range tried.Findings {
		s.out.Line("%s", cli.Line(f, 200))
	}
	if err := unlessBuilt(tried.Build); err != nil {
		return err
	}
	s.tried = s.text
	s.out.Line("%s", s.out.Style(cli.Green, "It works: the build succeeded."))
	return nil
}

func (s *setUp) commit(ctx context.Context) (bool, error) {
	if err := s.try(ctx); err != nil {
		return false, err
	}
	done, err := s.c.CommitEnvironment(ctx, s.agent.ID, s.text)
	if err != nil {
		return false, err
	}
	s.out.Line("Committed %s as %.12s and pushed to the branch %s.", cli.Line(done.Path, 80), cli.Line(done.Commit, 64), s.out.Style(cli.Green, cli.Line(done.Branch, 200)))
	s.out.Line("Merge that branch, and every agent starts from it. To try it now:")
	for _, repo := range s.agent.Repos {
		s.out.Line("  aloft run --repo %s --ref %s \"…\"", cli.Line(repo.URL, 200), cli.Line(done.Branch, 200))
	}
	return s.end(ctx)
}

func (s *setUp) keep(ctx context.Context) (bool, error) {
	if err := s.try(ctx); err != nil {
		return false, err
	}
	for _, repo := range s.agent.Repos {
		id, err := s.c.SaveEnvironment(ctx, s.agent.Name, repo.URL, s.text)
		if err != nil {
			return false, err
		}
		s.out.Line("Kept for you as %s. It counts where the repository has no environment.json of its own.", s.out.Style(cli.Green, cli.Line(id, 80)))
	}
	return s.end(ctx)
}

// end offers to discard what is not needed any more.
func (s *setUp) end(ctx context.Context) (bool, error) {
	if s.confirm("The machine is not needed any more. Discard it?") {
		return s.discard(ctx)
	}
	return s.leave(ctx)
}

func (s *setUp) leave(context.Context) (bool, error) {
	s.out.Line("Come back with `aloft env setup --resume`.")
	return true, nil
}

// discard archives the agent: what was saved and pushed stays.
func (s *setUp) discard(ctx context.Context) (bool, error) {
	if err := s.c.Archive(ctx, s.agent.ID); err != nil {
		return false, err
	}
	s.out.Line("The machine is discarded. What you saved and pushed stays.")
	return true, nil
}

// edit opens the environment in the person's editor, and reads it again.
func (s *setUp) edit(ctx context.Context) (bool, error) {
	f, err := os.CreateTemp("", "environment-*.json")
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(s.text)
	if err := errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	editor := cmp.Or(s.getenv("VISUAL"), s.getenv("EDITOR"), "vi")
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", f.Name()) //nolint:gosec // the person's own
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return false, fmt.Errorf("%s: %w", editor, err)
	}
	data, err := os.ReadFile(f.Name())
	if err != nil {
		return false, err
	}
	s.text = string(data)
	_, findings := environment.Parse("environment.json", data)
	s.show()
	for _, f := range findings {
		s.out.Line("%s", cli.Clean(f.String()))
	}
	return false, nil
}
