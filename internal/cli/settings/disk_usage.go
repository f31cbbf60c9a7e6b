package settings

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newDiskUsageCommand(a *app) *cobra.Command {
	var by string
	cmd := &cobra.Command{
		Use:   "disk",
		Short: "Show what uses the server's disk, by person, agent, kind or item",
		Long: `Show what uses the server's disk, the largest first: what is yours or, for admins,
everything. What everybody shares (images, copies of repositories, builds) is the server's.
Below, it shows the streams, large requests, pushes and events that are open at the server
now, with the memory that they may take.

To free space: aloft agent delete, aloft snapshot delete.`,
		Example: `  aloft usage disk
  aloft usage disk --by agent`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(diskGroups, by) {
				return command.UsageError(errors.New("invalid --by " + strconv.Quote(by) + ": must be " + strings.Join(diskGroups, ", ")))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			usage, err := c.DiskUsage(cmd.Context())
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(usage)
			}
			a.Out.Table(diskTable(usage, by))
			if len(usage.Held) > 0 {
				a.Out.Note("Open at the server now:")
				a.Out.Table(heldTable(usage.Held))
			}
			if usage.QuotaBytes > 0 {
				a.Out.Note("Each person may use %d MiB.", usage.QuotaBytes>>20)
			}
			if usage.Omitted > 0 && by != "person" {
				a.Out.Note("%d smaller items are not included.", usage.Omitted)
			}
			if usage.Incomplete {
				a.Out.Note("Some items could not be measured: see the server's log.")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&by, "by", "person", "group by person, agent, kind or item")
	return cmd
}

var diskGroups = []string{"person", "agent", "kind", "item"}

// diskTable returns a table of the sums of each group, the largest first.
func diskTable(usage client.DiskUsage, by string) [][]string {
	type sum struct {
		name          string
		bytes, inodes int64
	}
	var sums []sum
	add := func(name string, bytes, inodes int64) {
		i := slices.IndexFunc(sums, func(s sum) bool { return s.name == name })
		if i < 0 {
			i, sums = len(sums), append(sums, sum{name: name})
		}
		sums[i].bytes += bytes
		sums[i].inodes += inodes
	}
	if by == "person" {
		for _, p := range usage.People {
			add(cmp.Or(p.User, "the server"), p.Bytes, p.Inodes)
		}
	} else {
		for _, i := range usage.Items {
			name := map[string]string{"agent": cmp.Or(i.AgentID, "-"), "kind": i.Kind, "item": i.Kind + " " + i.ID}[by]
			add(name, i.Bytes, i.Inodes)
		}
	}
	slices.SortFunc(sums, func(a, b sum) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.name, b.name)) })
	table := [][]string{{strings.ToUpper(by), "MIB", "INODES"}}
	for _, s := range sums {
		table = append(table, []string{cli.Line(s.name, 80), strconv.FormatFloat(float64(s.bytes)/(1<<20), 'f', 1, 64), strconv.FormatInt(s.inodes, 10)})
	}
	return table
}

// heldTable returns a table of what is open at the server.
func heldTable(held []client.Held) [][]string {
	table := [][]string{{"OPEN", "COUNT", "MIB", "PERSON", "AGENT"}}
	for _, h := range held {
		table = append(table, []string{
			h.Kind, strconv.Itoa(h.Count), strconv.FormatFloat(float64(h.Bytes)/(1<<20), 'f', 1, 64),
			cli.Line(cmp.Or(h.User, "-"), 80), cmp.Or(h.AgentID, "-"),
		})
	}
	return table
}
