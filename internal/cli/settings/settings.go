package settings

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

// settings lists the team settings: command-line name, API name, description and parser.
var settings = []struct {
	name, field, words string
	read               func(string) (any, error)
}{
	{"default-model", "defaultModel", "model of agents created without one; empty for the server's default", asText},
	{"fast-model", "fastModel", "model of titles, summaries and other small tasks; empty for the server's", asText},
	{"default-repository", "defaultRepository", "repository of agents created without one; empty for none", asText},
	{"base-branch", "baseBranch", "branch of repositories named without a ref; empty for their default branch", asText},
	{"display-agent-summary", "displayAgentSummary", "show what agents do and ask in lists and notifications", asBool},
	{"display-agent-summary-externally", "displayAgentSummaryExternally", "show what agents do and ask in webhooks and other channels too", asBool},
	{"privacy-mode", "privacyMode", "keep prompts, answers and code on the server; applies from each agent's next run", asBool},
	{"fix-failed-checks", "fixFailedChecks", "let agents fix failed checks of the pull requests that they have opened", asBool},
	{"network-mode", "networkMode", "what machines may connect to: allow_all, default_with_network_settings or network_settings_only", asText},
	{"network-allowlist", "networkAllowlist", "additional hosts that machines may connect to, separated by spaces", asList},
	{"memory", "memory", "whether agents write down what later agents get: off, review (once a person has approved it) or on", asText},
	{"memory-repositories", "memoryRepositories", "repositories to which memory applies, separated by spaces; empty for all", asList},
	{"retention-days", "retentionDays", "days until an unused agent is deleted; 0 for never", asNumber},
	{"max-turns", "maxTurns", "model replies after which a run ends; 0 for the server's limit", asNumber},
	{"max-tokens", "maxTokens", "tokens after which a run ends; 0 for the server's limit", asNumber},
	{"max-cost", "maxCostUsd", "US dollars after which a run ends; 0 for the server's limit", asDollars},
	{"max-time", "maxSeconds", "time after which a run ends, such as 4h; 0 for the server's limit", asSeconds},
	{"machine-retention-days", "machineRetentionDays", "days until an unused machine is deleted; 0 for the server's setting", asNumber},
}

func asText(s string) (any, error) { return s, nil }

func asList(s string) (any, error) { return append([]string{}, strings.Fields(s)...), nil }

func asBool(s string) (any, error) {
	switch s {
	case "on", "true":
		return true, nil
	case "off", "false":
		return false, nil
	}
	return nil, command.UsageError(fmt.Errorf("invalid value %q: must be on or off", s))
}

func asNumber(s string) (any, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil, command.UsageError(fmt.Errorf("invalid number %q", s))
	}
	return n, nil
}

func asDollars(s string) (any, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, command.UsageError(fmt.Errorf("invalid amount in dollars %q", s))
	}
	return n, nil
}

func asSeconds(s string) (any, error) {
	if s == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d%time.Second != 0 {
		return nil, command.UsageError(fmt.Errorf("invalid duration %q: use a value such as 4h or 90m, in whole seconds", s))
	}
	return int64(d / time.Second), nil
}

func newSettingsCommand(a *app) *cobra.Command {
	var words strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&words, "  %-33s %s\n", s.name, s.words)
	}
	cmd := &cobra.Command{
		Use:   "settings",
		Short: "Show or change the team's settings",
		Long: `Show the team's settings or, as an admin, change them. Changes apply at once to agents
created from then on; privacy-mode applies to each agent's next run.

` + strings.TrimRight(words.String(), "\n"),
		Example: `  aloft settings
  aloft settings set default-repository github.com/acme/app
  aloft settings set network-mode default_with_network_settings
  aloft settings set network-allowlist "*.example.com 192.0.2.0/24"
  aloft settings set retention-days 30
  aloft settings set max-cost 20`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			now, err := c.Settings(cmd.Context())
			if err != nil {
				return err
			}
			return a.showSettings(now)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use: "set NAME VALUE", Short: "Change a setting; an empty value restores the default", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, s := range settings {
				if s.name != args[0] {
					continue
				}
				value, err := s.read(args[1])
				if err != nil {
					return err
				}
				c, err := a.Connect()
				if err != nil {
					return err
				}
				now, err := c.UpdateSettings(cmd.Context(), client.Settings{s.field: value})
				if err != nil {
					return err
				}
				return a.showSettings(now)
			}
			return command.UsageError(fmt.Errorf("unknown setting %q: see aloft settings --help", args[0]))
		},
	})
	return cmd
}

func (a *app) showSettings(now client.Settings) error {
	if a.Out.JSON() {
		return a.Out.Value(now)
	}
	rows := [][]string{{"NAME", "VALUE"}}
	for _, s := range settings {
		value := ""
		switch v := now[s.field].(type) {
		case bool:
			value = "off"
			if v {
				value = "on"
			}
		case []any:
			for _, one := range v {
				value += fmt.Sprint(one, " ")
			}
		default:
			value = fmt.Sprint(v)
		}
		if seconds, ok := now[s.field].(float64); ok && s.field == "maxSeconds" && seconds > 0 {
			value = (time.Duration(seconds) * time.Second).String()
		}
		value = cmp.Or(strings.TrimSpace(value), "-")
		rows = append(rows, []string{s.name, cli.Line(value, 100)})
	}
	a.Out.Table(rows)
	return nil
}

func newUsageCommand(a *app) *cobra.Command {
	var from, to, by string
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show token usage and cost by day, person, repository or model",
		Long: `Show token usage and cost by day, person, repository or model: your own or, for admins,
everybody's.

Costs are in US dollars, at the prices that were configured when the tokens were used. A
cost is unknown if no price was configured.`,
		Example: `  aloft usage
  aloft usage --by repository --from 2026-01-01 --to 2026-03-31`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			group, ok := usageGroups[by]
			if !ok {
				return command.UsageError(fmt.Errorf("invalid --by %q: must be day, person, repository or model", by))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			report, err := c.UsageReport(cmd.Context(), from, to)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(report)
			}
			a.Out.Table(sumUsage(report.Items, by, group))
			a.Out.Note("From %s to %s, UTC.", cli.Line(report.From, 10), cli.Line(report.To, 10))
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "first `day` (default: 30 days ago)")
	cmd.Flags().StringVar(&to, "to", "", "last `day` (default: today)")
	cmd.Flags().StringVar(&by, "by", "day", "group by day, person, repository or model")
	cmd.AddCommand(newDiskUsageCommand(a))
	return cmd
}

var usageGroups = map[string]func(client.UsageRow) string{
	"day":        func(r client.UsageRow) string { return r.Day },
	"person":     func(r client.UsageRow) string { return r.User },
	"repository": func(r client.UsageRow) string { return r.Repository },
	"model":      func(r client.UsageRow) string { return r.Model },
}

// sumUsage returns a table of rows summed by group and sorted by group name.
func sumUsage(rows []client.UsageRow, by string, group func(client.UsageRow) string) [][]string {
	sums := map[string]*client.UsageRow{}
	var names []string
	for _, r := range rows {
		name := group(r)
		sum := sums[name]
		if sum == nil {
			sum = &client.UsageRow{}
			sums[name] = sum
			names = append(names, name)
		}
		sum.Runs += r.Runs
		sum.Turns += r.Turns
		sum.InputTokens += r.InputTokens
		sum.OutputTokens += r.OutputTokens
		sum.CacheReadTokens += r.CacheReadTokens
		sum.CacheWriteTokens += r.CacheWriteTokens
		sum.Cost = sum.Add(r.Cost)
	}
	slices.Sort(names)
	table := [][]string{{strings.ToUpper(by), "RUNS", "TURNS", "INPUT", "CACHED", "OUTPUT", "COST"}}
	for _, name := range names {
		s, shown := sums[name], cli.Line(name, 60)
		if shown == "" {
			shown = "-"
		}
		row := []string{shown}
		for _, n := range []int64{s.Runs, s.Turns, s.InputTokens, s.CacheReadTokens + s.CacheWriteTokens, s.OutputTokens} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		table = append(table, append(row, s.String()))
	}
	return table
}

func newAuditCommand(a *app) *cobra.Command {
	var limit int
	cmd := command.List[client.AuditEntry]{
		Use: "audit", Short: "List changes to the team's settings, newest first; admins only",
		Of: func(ctx context.Context, c *client.Client, _ []string) ([]client.AuditEntry, error) {
			return c.Audit(ctx, limit)
		},
		Head: []string{"WHEN", "WHO", "FROM", "WHAT", "OF", "OUTCOME"},
		Row: func(e client.AuditEntry) []string {
			return []string{
				e.Time.Local().Format(time.DateTime), cmp.Or(cli.Line(e.User, 40), "-"), cli.Line(e.Address, 45), cli.Line(e.Action, 40), cli.Line(e.Target, 60), cli.Line(e.Outcome, 30),
			}
		},
	}.Command(a.App)
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of entries to list, from 1 to 100")
	return cmd
}
