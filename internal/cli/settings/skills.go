package settings

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
)

const skillsDraft = "skills-draft.md"

func newRulesPublishCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "publish",
		Short: "Publish the draft of the team's skills",
		Long: `Publish the draft of the team's skills (skills-draft.md) as skills.md. Try it first: an
agent gets the draft of a skill if its prompt contains /NAME-draft. Admins only.`,
		Example: `  aloft rules set --team skills-draft.md skills.md
  aloft run "Make a release candidate with /release-draft"
  aloft rules publish`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			draft, err := c.Rule(cmd.Context(), true, skillsDraft)
			if err != nil {
				return err
			}
			if draft.Text == "" {
				return &cli.Problem{Exit: cli.NotFound, Code: "no_draft", Message: "the team has no draft of its skills", Hint: "set one with `aloft rules set --team skills-draft.md FILE`"}
			}
			published, err := c.PublishSkills(cmd.Context(), draft.Text)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(published)
			}
			a.Out.Line("Published the team's skills.")
			return nil
		},
	}
}

func newRulesVersionsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "versions [NUMBER]", Short: "List the versions of the team's skills, or print one", Args: cobra.MaximumNArgs(1),
		Example: `  aloft rules versions
  aloft rules versions 2 | aloft rules set --team skills.md    # return to it`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			all, err := c.SkillVersions(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				n, err := strconv.Atoi(args[0])
				if err != nil || n < 1 || n > len(all) {
					return command.UsageError(fmt.Errorf("no version %q: list the versions with aloft rules versions", args[0]))
				}
				if a.Out.JSON() {
					return a.Out.Value(all[n-1])
				}
				a.Out.Text(strings.TrimRight(cli.Clean(all[n-1].Text), "\n") + "\n")
				return nil
			}
			if a.Out.JSON() {
				return a.Out.Value(all)
			}
			rows := [][]string{{"NUMBER", "PUBLISHED", "BY", "BYTES", ""}}
			for i, v := range all {
				state := ""
				if v.Current {
					state = "current"
				}
				rows = append(rows, []string{strconv.Itoa(i + 1), v.CreatedAt.Local().Format(time.DateTime), "member " + strconv.FormatInt(v.UserID, 10), strconv.Itoa(len(v.Text)), state})
			}
			a.Out.Table(rows)
			return nil
		},
	}
}
