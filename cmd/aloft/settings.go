package main

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
	"aloft/internal/client"
)

// settings are what an admin may settle: the words of the command line, the
// API's name, and how a value is read.
var settings = []struct {
	name, field, words string
	read               func(string) (any, error)
}{
	{"default-model", "defaultModel", "of agents that name none; empty is the server's", asText},
	{"default-repository", "defaultRepository", "of agents that name none; empty is none", asText},
	{"base-branch", "baseBranch", "of repositories named without a ref; empty is their own", asText},
	{"display-agent-summary", "displayAgentSummary", "lists and notices show what agents do and ask", asBool},
	{"display-agent-summary-externally", "displayAgentSummaryExternally", "so do webhooks and other channels", asBool},
	{"privacy-mode", "privacyMode", "nothing of prompts, answers or code leaves the server; from the next run of each agent", asBool},
	{"network-mode", "networkMode", "what machines may reach: allow_all, default_with_network_settings, network_settings_only", asText},
	{"network-allowlist", "networkAllowlist", "what else they may reach, with spaces between", asList},
	{"retention-days", "retentionDays", "agents that nobody touches for so long are deleted; 0 is never", asNumber},
	{"max-turns", "maxTurns", "replies of the model after which a run ends; 0 is the server's own", asNumber},
	{"max-tokens", "maxTokens", "tokens likewise", asNumber},
	{"max-cost", "maxCostUsd", "US dollars likewise", asDollars},
	{"max-time", "maxSeconds", "time likewise, as 4h", asSeconds},
	{"machine-retention-days", "machineRetentionDays", "machines that nobody uses for so long are removed; 0 is the server's own", asNumber},
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
	return nil, usageError{fmt.Errorf("%q is neither on nor off", s)}
}

func asNumber(s string) (any, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil, usageError{fmt.Errorf("%q is no number", s)}
	}
	return n, nil
}

func asDollars(s string) (any, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, usageError{fmt.Errorf("%q is no number of dollars", s)}
	}
	return n, nil
}

func asSeconds(s string) (any, error) {
	if s == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d%time.Second != 0 {
		return nil, usageError{fmt.Errorf("%q is no time: it is as in 4h or 90m, in whole seconds", s)}
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
		Short: "Show what is settled for new agents, or settle it",
		Long: `Show what is settled for new agents, or settle it, as an admin. It counts at once,
for agents that are made from then on; privacy-mode counts for runs.

` + strings.TrimRight(words.String(), "\n"),
		Example: `  aloft settings
  aloft settings set default-repository github.com/acme/app
  aloft settings set network-mode default_with_network_settings
  aloft settings set network-allowlist "*.example.com 192.0.2.0/24"
  aloft settings set retention-days 30
  aloft settings set max-cost 20`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.connect()
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
		Use: "set NAME VALUE", Short: "Settle something; an empty value takes it back", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, s := range settings {
				if s.name != args[0] {
					continue
				}
				value, err := s.read(args[1])
				if err != nil {
					return err
				}
				c, err := a.connect()
				if err != nil {
					return err
				}
				now, err := c.UpdateSettings(cmd.Context(), client.Settings{s.field: value})
				if err != nil {
					return err
				}
				return a.showSettings(now)
			}
			return usageError{fmt.Errorf("there is no setting %q: see aloft settings --help", args[0])}
		},
	})
	return cmd
}

func (a *app) showSettings(now client.Settings) error {
	if a.out.JSON() {
		return a.out.Value(now)
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
	a.out.Table(rows)
	return nil
}

func newUsageCommand(a *app) *cobra.Command {
	var from, to, by string
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Count tokens and their cost by day, person, repository or model",
		Long: `Count tokens and their cost by day, person, repository or model: yours, or everybody's for admins.

The cost is in US dollars, at the prices that the server's configuration had when the tokens were used; where it had none, it is unknown.`,
		Example: `  aloft usage
  aloft usage --by repository --from 2026-01-01 --to 2026-03-31`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			group, ok := usageGroups[by]
			if !ok {
				return usageError{fmt.Errorf("--by: %q is none of day, person, repository, model", by)}
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			report, err := c.UsageReport(cmd.Context(), from, to)
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(report)
			}
			a.out.Table(sumUsage(report.Items, by, group))
			a.out.Note("From %s to %s, UTC.", cli.Line(report.From, 10), cli.Line(report.To, 10))
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the first `day`; 30 days ago unless given")
	cmd.Flags().StringVar(&to, "to", "", "the last `day`; today unless given")
	cmd.Flags().StringVar(&by, "by", "day", "day, person, repository or model")
	return cmd
}

var usageGroups = map[string]func(client.UsageRow) string{
	"day":        func(r client.UsageRow) string { return r.Day },
	"person":     func(r client.UsageRow) string { return r.User },
	"repository": func(r client.UsageRow) string { return r.Repository },
	"model":      func(r client.UsageRow) string { return r.Model },
}

// sumUsage is the table of rows summed by group, in the order of their names.
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
		sum.CacheRead += r.CacheRead
		sum.CacheWrite += r.CacheWrite
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
		for _, n := range []int64{s.Runs, s.Turns, s.InputTokens, s.CacheRead + s.CacheWrite, s.OutputTokens} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		table = append(table, append(row, s.String()))
	}
	return table
}

func newAuditCommand(a *app) *cobra.Command {
	var limit int
	cmd := list[client.AuditEntry]{
		use: "audit", short: "List who has settled what, the newest first; for admins",
		of: func(ctx context.Context, c *client.Client, _ []string) ([]client.AuditEntry, error) {
			return c.Audit(ctx, limit)
		},
		head: []string{"WHEN", "WHO", "FROM", "WHAT", "OF", "OUTCOME"},
		row: func(e client.AuditEntry) []string {
			return []string{
				e.Time.Local().Format(time.DateTime), cmp.Or(cli.Line(e.User, 40), "-"), cli.Line(e.Address, 45), cli.Line(e.Action, 40), cli.Line(e.Target, 60), cli.Line(e.Outcome, 30),
			}
		},
	}.command(a)
	cmd.Flags().IntVar(&limit, "limit", 50, "how many, from 1 to 100")
	return cmd
}
