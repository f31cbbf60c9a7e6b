package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"aloft/internal/fault"
)

// A Quota limits the disk usage of each user. Its methods are safe for
// concurrent use.
type Quota struct {
	Ledger *Ledger
	Limit  Size // 0 means no limit
	Logger *slog.Logger
}

// quotaTime is the timeout of a request for measurements.
const quotaTime = 20 * time.Second

// MayUseMore returns a fault if the user is over the quota. Before it refuses,
// it measures again, so that a user who has freed space may continue at once.
// Items that cannot be measured do not count.
func (q Quota) MayUseMore(ctx context.Context, userID int64) error {
	if q.Limit == (Size{}) {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, quotaTime)
	defer cancel()
	rows, err := q.Ledger.Rows(within, userID)
	if q.isOver(Sum(rows)) {
		rows, err = q.Ledger.RowsNow(within, userID)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		q.Logger.Warn("cannot measure a person's disk usage completely", "user", userID, "error", err)
	}
	total := Sum(rows)
	if !q.isOver(total) {
		return nil
	}
	what, key := fmt.Sprintf("%s of %s", Show(total.Bytes), Show(q.Limit.Bytes)), "quotas.disk_bytes"
	if q.Limit.Bytes == 0 || total.Bytes <= q.Limit.Bytes {
		what, key = fmt.Sprintf("%d of %d inodes", total.Inodes, q.Limit.Inodes), "quotas.disk_inodes"
	}
	largest, commands := largestOf(rows)
	hint := fmt.Sprintf("ask the operator to raise %s", key)
	if len(commands) > 0 {
		hint = fmt.Sprintf("free space with %s, or %s", strings.Join(commands, " or "), hint)
	}
	return fault.Exhausted("the disk quota per person is exceeded: %s are used; largest: %s", what, strings.Join(largest, ", ")).Hint("%s", hint)
}

func (q Quota) isOver(total Size) bool {
	return q.Limit.Bytes > 0 && total.Bytes > q.Limit.Bytes || q.Limit.Inodes > 0 && total.Inodes > q.Limit.Inodes
}

// maxNamed is how many rows a message about a quota names.
const maxNamed = 3

// largestOf describes the first rows, and returns the commands to delete them.
func largestOf(rows []Row) (largest, commands []string) {
	seen := map[string]bool{}
	for _, r := range rows[:min(len(rows), maxNamed)] {
		name, command := fmt.Sprintf("%s %s", r.Kind, r.ID), ""
		switch {
		case r.AgentID != "":
			name, command = fmt.Sprintf("%s of agent %s", r.Kind, r.AgentID), "`aloft agent delete "+r.AgentID+"`"
		case r.Kind == Layer:
			name, command = "snapshot "+r.ID, "`aloft snapshot delete "+r.ID+"`"
		}
		largest = append(largest, name+" ("+Show(r.Bytes)+")")
		if command != "" && !seen[command] {
			seen[command] = true
			commands = append(commands, command)
		}
	}
	return largest, commands
}

// Show returns a number of bytes with a unit, such as 1.5 GiB.
func Show(n int64) string {
	unit, names := float64(n), []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; unit >= 1024 && i < len(names)-1; i++ {
		unit /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", unit, names[i])
}
