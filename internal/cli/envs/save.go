package envs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
	"aloft/internal/environment"
)

// maxText is the largest environment.json that is read, in bytes.
const maxText = environment.MaxSize

func readFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err == nil && len(data) > maxText {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxText)
	}
	return string(data), err
}

func reposOf(urls []string) *[]client.RepoOf {
	repos := make([]client.RepoOf, 0, len(urls))
	for _, url := range urls {
		repos = append(repos, client.RepoOf{URL: url})
	}
	return &repos
}

func newEnvCreateCommand(a *app) *cobra.Command {
	var name string
	var repos []string
	var team bool
	cmd := &cobra.Command{
		Use:   "create --name NAME --repo URL FILE",
		Short: "Save an environment on the server",
		Long: `Save an environment on the server, for repositories that have no environment.json.
It is yours, or with --team the team's (admins only). FILE has the format of
environment.json; "-" is standard input.`,
		Example: `  aloft env create --name web --repo https://git.example.com/team/app environment.json
  echo '{"install": "npm ci"}' | aloft env create --name web --repo https://git.example.com/team/app -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name == "" || len(repos) == 0 {
				return command.Misuse(cmd, errors.New("--name and --repo are required"))
			}
			text, err := a.readText(args[0])
			if err != nil {
				return err
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			in := client.NewEnvironment{Owner: "personal", Name: &name, Repos: reposOf(repos), JSON: &text}
			if team {
				in.Owner = "team"
			}
			e, err := c.CreateEnvironment(cmd.Context(), in)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(e)
			}
			a.Out.Line("Saved %s. Build it with `aloft env build %s`, or let the first agent build it.", a.Out.Style(cli.Green, cli.Line(e.ID, 80)), cli.Line(e.ID, 80))
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the environment")
	cmd.Flags().StringArrayVar(&repos, "repo", nil, "`URL` of a repository that uses it; may be repeated")
	cmd.Flags().BoolVar(&team, "team", false, "save it for the team; admins only")
	return cmd
}

func newEnvUpdateCommand(a *app) *cobra.Command {
	var name string
	var repos []string
	cmd := &cobra.Command{
		Use:   "update ENVIRONMENT [FILE]",
		Short: "Change a saved environment",
		Long: `Change a saved environment: its content, read from FILE ("-" is standard input), its
name, or its repositories (--repo replaces the whole list). Earlier versions stay in
its history.`,
		Example: `  aloft env show env-… > environment.json
  aloft env update env-… environment.json
  aloft env update env-… --name web --repo https://git.example.com/team/app`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var in client.NewEnvironment
			if cmd.Flags().Changed("name") {
				in.Name = &name
			}
			if cmd.Flags().Changed("repo") {
				in.Repos = reposOf(repos)
			}
			if len(args) == 2 {
				text, err := a.readText(args[1])
				if err != nil {
					return err
				}
				in.JSON = &text
			}
			if in == (client.NewEnvironment{}) {
				return command.Misuse(cmd, errors.New("nothing to change: give a file, --name or --repo"))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := c.UpdateEnvironment(cmd.Context(), args[0], in); err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(map[string]string{"id": args[0]})
			}
			a.Out.Line("Changed %s. Agents started from now on use it.", cli.Line(args[0], 80))
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the environment")
	cmd.Flags().StringArrayVar(&repos, "repo", nil, "`URL` of a repository that uses it; may be repeated")
	return cmd
}

func newEnvHistoryCommand(a *app) *cobra.Command {
	var restore, diff bool
	cmd := &cobra.Command{
		Use:   "history ENVIRONMENT [VERSION] [NEWER]",
		Short: "List, print, compare or restore versions of an environment",
		Long: `List the versions of an environment, newest first. With a VERSION, print it. With
--restore, make it the current version again: this adds a new version, so nothing is
lost. If its build is still kept, that is reused.

--diff shows what changed between two versions (the older first), from one VERSION
to the current one, or by default from the previous version to the current one.`,
		Example: `  aloft env history env-…
  aloft env history env-… envv-…
  aloft env history env-… --diff
  aloft env history env-… envv-… envv-… --diff
  aloft env history env-… envv-… --restore`,
		Args: cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case restore && len(args) == 1:
				return command.Misuse(cmd, errors.New("--restore requires a VERSION; run the command without one to list them"))
			case restore && diff, len(args) == 3 && !diff:
				return command.Misuse(cmd, errors.New("two versions require --diff, which cannot be combined with --restore"))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if diff {
				return a.showVersionDiff(ctx, c, args)
			}
			list, err := c.EnvironmentHistory(ctx, args[0])
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return a.showVersions(list)
			}
			for _, v := range list {
				switch {
				case v.ID != args[1]:
					continue
				case restore:
					if err := c.UpdateEnvironment(ctx, args[0], client.NewEnvironment{JSON: &v.JSON}); err != nil {
						return err
					}
					if a.Out.JSON() {
						return a.Out.Value(map[string]string{"id": args[0], "versionId": v.ID})
					}
					a.Out.Line("Restored %s to its version from %s.", cli.Line(args[0], 80), cli.Ago(time.Since(v.CreatedAt)))
					return nil
				case a.Out.JSON():
					return a.Out.Value(v)
				}
				a.Out.Line("%s", cli.Exact(v.JSON))
				return nil
			}
			return &cli.Problem{Exit: cli.Failure, Code: "not_found", Message: "not among the newest 100 versions: " + cli.Line(args[1], 80),
				Hint: "list them with `aloft env history " + cli.Line(args[0], 80) + "`"}
		},
	}
	cmd.Flags().BoolVar(&restore, "restore", false, "make VERSION the current one again")
	cmd.Flags().BoolVar(&diff, "diff", false, "show what changed")
	return cmd
}

// showVersionDiff prints the difference between two versions. args holds the
// environment and, optionally, the older and the newer version.
func (a *app) showVersionDiff(ctx context.Context, c *client.Client, args []string) error {
	args = append(args, "", "")
	d, err := c.EnvironmentDiff(ctx, args[0], args[1], args[2])
	switch {
	case err != nil:
		return err
	case a.Out.JSON():
		return a.Out.Value(d)
	case d.Diff == "":
		a.Out.Note("No differences.")
	case cli.IsTerminal(a.Stdout):
		a.PrintColorDiff(d.Diff)
	default:
		a.Out.Text(cli.Exact(d.Diff))
	}
	return nil
}

func (a *app) showVersions(list []client.Version) error {
	if a.Out.JSON() {
		return a.Out.Value(map[string][]client.Version{"items": append([]client.Version{}, list...)})
	}
	rows := [][]string{{"VERSION", "BY", "WRITTEN", "INSTALL"}}
	for _, v := range list {
		e, _ := environment.Parse("environment.json", []byte(v.JSON))
		rows = append(rows, []string{cli.Line(v.ID, 80), fmt.Sprintf("user %d", v.UserID), cli.Ago(time.Since(v.CreatedAt)), cli.Line(e.Install, 48)})
	}
	a.Out.Table(rows)
	return nil
}
