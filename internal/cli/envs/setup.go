package envs

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
	"aloft/internal/cli/command"
	"aloft/internal/client"
	"aloft/internal/environment"
)

func newEnvSetupCommand(a *app) *cobra.Command {
	var image, ref string
	var resume, helper bool
	cmd := &cobra.Command{
		Use:   "setup [REPO]",
		Short: "Set up a machine for a repository and save it as an environment",
		Long: `Set up a machine for a repository and save it as an environment.

The command opens a shell in a machine with a checkout of the repository. Install
what the project needs, then leave the shell. You can then save the disk, and the
command proposes an environment.json that you can test with a build, and commit to a
branch or keep for yourself. The machine is kept until you discard it, so you lose
nothing if your terminal disconnects or the server restarts.

With --agent, an agent finds out what the project needs and proposes an
environment.json on a branch. It is tested with a build, and then you decide.
Without a terminal, the command ends there, with exit code 0 if the build succeeded.`,
		Example: `  aloft env setup https://git.example.com/team/app
  aloft env setup https://git.example.com/team/app --image debian:12
  aloft env setup --resume
  aloft env setup https://git.example.com/team/app --agent`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case resume == (len(args) == 1):
				return command.Misuse(cmd, errors.New("give the URL of a repository, or --resume"))
			case helper && (resume || image != ""):
				return command.Misuse(cmd, errors.New("--agent cannot be combined with --resume or --image"))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			s := &setUp{app: a, c: c, in: bufio.NewReader(a.Stdin), flags: cmd.InheritedFlags()}
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
	flags.StringVar(&image, "image", "", "`image` to start from, such as debian:12 (default: that of the repository's environment)")
	flags.StringVar(&ref, "ref", "", "`ref` to check out (default: the default branch)")
	flags.BoolVar(&resume, "resume", false, "continue with the machine that you set up last")
	flags.BoolVar(&helper, "agent", false, "let an agent set up the environment")
	return cmd
}

// setUp is an interactive session in which a person sets up a machine. Its lasting
// state is on the server.
type setUp struct {
	*app
	c     *client.Client
	in    *bufio.Reader
	flags *pflag.FlagSet // flags of this command, to start another process for the same server
	agent client.Agent
	text  string // text of the environment.json; "" before the first snapshot
	tried string // text of the last test build
}

func setUpName(repo client.Repo) string {
	return "Set up " + cli.Line(repo.URL[strings.LastIndexByte(repo.URL, '/')+1:], 60)
}

// begin creates an agent with a machine to set up.
func (s *setUp) begin(ctx context.Context, repo client.Repo, image string) error {
	made, run, err := s.c.CreateAgent(ctx, client.NewAgent{
		Prompt: client.Prompt{Text: "Set up a machine."}, Name: setUpName(repo), Repos: []client.Repo{repo},
		Env: &client.Env{Type: "cloud", Preset: client.PresetSetUp, Image: image},
	}, uuid.NewString())
	if err != nil {
		return err
	}
	s.agent = made
	if s.Out.JSON() {
		return s.FollowStream(ctx, s.c, made.ID, run.ID)
	}
	t := cli.NewTranscript(s.Out)
	if err := s.Transcribe(ctx, t, s.c, command.Journal{AgentID: made.ID, Follow: true}, func(e client.Event) (show, end bool) {
		return e.RunID == run.ID && e.Kind != "run.created", t.Ended != nil
	}); err != nil {
		return err
	}
	if t.Ended != nil && t.Ended.Failure != nil {
		return &cli.Problem{Exit: cli.RunFailed, Code: t.Ended.Failure.Code, Message: t.Ended.Failure.Message, Hint: t.Ended.Hint}
	}
	return nil
}

// find selects the machine that was set up last.
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
	return &cli.Problem{Exit: cli.Failure, Code: "not_found", Message: "no machine to resume", Hint: "start with `aloft env setup REPO`"}
}

// work opens the shell and then asks what to do next, until the person ends the
// session.
func (s *setUp) work(ctx context.Context) error {
	if s.Out.JSON() {
		return s.Out.Value(map[string]string{"agentId": s.agent.ID})
	}
	s.Out.Line("")
	s.Out.Line("The machine is ready: %s", s.Out.Style(cli.Bold, s.agent.ID))
	if _, _, err := s.NeedTerminal(); err != nil {
		s.Out.Line("Not a terminal. Continue in one with `aloft env setup --resume`, or connect with `aloft agent ssh %s`.", s.agent.ID)
		return nil //nolint:nilerr // reported above
	}
	s.Out.Line("Install what the project needs. You are the machine's user and can use sudo. The checkout is in /workspace.")
	s.Out.Line("To connect an editor or a second shell, use `aloft agent ssh %s` (for IDEs, `aloft config-ssh`).", s.agent.ID)
	s.Out.Line("Press Ctrl-B D or type exit to leave the shell.")
	if !s.confirm("Open the shell?") {
		return s.ask(ctx)
	}
	if err := s.shell(ctx); err != nil {
		return err
	}
	return s.ask(ctx)
}

// shell attaches to the shared terminal in a separate process, because a blocked read
// of the keyboard cannot be canceled.
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
		s.Out.Note("The terminal was closed: %v. The machine is kept.", err)
	}
	return context.Cause(ctx)
}

// choice is an action that a person can choose next. do returns true to end the
// session.
type choice struct {
	key, words string
	do         func(context.Context) (bool, error)
}

// ask offers choices until one ends the session. After an error it prints the
// error and asks again, so that an error does not end the session.
func (s *setUp) ask(ctx context.Context) error {
	for {
		choices := []choice{{"s", "save the disk and propose an environment.json", s.save}}
		if s.text != "" {
			choices = []choice{
				{"c", "test it with a build, then commit it and push a branch", s.commit},
				{"p", "test it with a build, then keep it for yourself", s.keep},
				{"t", "only test it with a build", func(ctx context.Context) (bool, error) { return false, s.try(ctx) }},
				{"e", "edit it", s.edit},
				{"s", "save the disk again", s.save},
			}
		}
		if s.agent.Env.Preset == client.PresetHelper {
			choices = append(choices, choice{"f", "tell the agent what to change", s.tellAgent})
		}
		choices = append(choices, choice{"b", "return to the shell", func(ctx context.Context) (bool, error) { return false, s.shell(ctx) }},
			choice{"l", "continue later", s.leave}, choice{"d", "discard the machine", s.discard})
		s.Out.Line("")
		for _, c := range choices {
			s.Out.Line("  %s  %s", s.Out.Style(cli.Bold, c.key), c.words)
		}
		answer, err := s.line("Choose: ")
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
				s.Out.Fail(err)
			} else if end {
				return nil
			}
		}
		if !known && answer != "" {
			s.Out.Line("Unknown choice %q.", cli.Line(answer, 20))
		}
	}
}

// line prints prompt and reads a line.
func (s *setUp) line(prompt string) (string, error) {
	_, _ = fmt.Fprint(s.Stdout, prompt)
	text, err := s.in.ReadString('\n')
	return strings.ToLower(strings.TrimSpace(text)), err
}

func (s *setUp) confirm(question string) bool {
	answer, err := s.line(question + " [Y/n] ")
	return err == nil && (answer == "" || strings.HasPrefix(answer, "y"))
}

func (s *setUp) save(ctx context.Context) (bool, error) {
	s.Out.Line("Saving the disk. This disconnects everyone from the machine and stops its processes.")
	snapshot, err := s.c.CreateSnapshot(ctx, s.agent.ID)
	if err != nil {
		return false, err
	}
	s.text = snapshot.JSON
	s.Out.Line("Saved: %s", s.Out.Style(cli.Green, cli.Line(snapshot.ID, 80)))
	s.show()
	for _, why := range snapshot.Why {
		s.Out.Line("  %s", s.Out.Style(cli.Dim, cli.Line(why, 120)))
	}
	return false, nil
}

func (s *setUp) show() {
	s.Out.Line("")
	s.Out.Text(cli.Exact(s.text))
}

// try tests the environment with a build.
func (s *setUp) try(ctx context.Context) error {
	if s.tried == s.text {
		return nil
	}
	s.Out.Line("Testing it with a build.")
	tried, err := s.c.TryEnvironment(ctx, s.agent.ID, s.text, func(news string) { s.Out.Status(cli.Line(news, 100)) })
	s.Out.Status("")
	if err != nil {
		return err
	}
	for _, f := range tried.Findings {
		s.Out.Line("%s", cli.Line(f, 200))
	}
	if err := unlessBuilt(tried.Build); err != nil {
		return err
	}
	s.tried = s.text
	s.Out.Line("%s", s.Out.Style(cli.Green, "The build succeeded."))
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
	s.Out.Line("Committed %s as %.12s and pushed branch %s.", cli.Line(done.Path, 80), cli.Line(done.Commit, 64), s.Out.Style(cli.Green, cli.Line(done.Branch, 200)))
	s.Out.Line("Agents use it once the branch is merged. To try it now:")
	for _, repo := range s.agent.Repos {
		s.Out.Line("  aloft run --repo %s --ref %s \"…\"", cli.Line(repo.URL, 200), cli.Line(done.Branch, 200))
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
		s.Out.Line("Saved for you as %s. It is used if the repository has no environment.json.", s.Out.Style(cli.Green, cli.Line(id, 80)))
	}
	return s.end(ctx)
}

// end asks whether to discard the machine.
func (s *setUp) end(ctx context.Context) (bool, error) {
	if s.confirm("The machine is no longer needed. Discard it?") {
		return s.discard(ctx)
	}
	return s.leave(ctx)
}

func (s *setUp) leave(context.Context) (bool, error) {
	s.Out.Line("Continue later with `aloft env setup --resume`.")
	return true, nil
}

// discard archives the agent. Its snapshots and pushed branches are kept.
func (s *setUp) discard(ctx context.Context) (bool, error) {
	if err := s.c.Archive(ctx, s.agent.ID); err != nil {
		return false, err
	}
	s.Out.Line("The machine was discarded. Saved snapshots and pushed branches are kept.")
	return true, nil
}

// edit opens the environment.json in the person's editor and reads the result.
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
	editor := cmp.Or(s.Getenv("VISUAL"), s.Getenv("EDITOR"), "vi")
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", f.Name()) //nolint:gosec // the user's own editor
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
		s.Out.Line("%s", cli.Clean(f.String()))
	}
	return false, nil
}
