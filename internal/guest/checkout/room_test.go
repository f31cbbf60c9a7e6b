package checkout

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// TestPushWaitsForRoom checks that a push waits while the machine's process
// limit leaves no processes for git, and returns other errors at once.
func TestPushWaitsForRoom(t *testing.T) {
	for _, c := range []struct {
		says  string
		tries int
	}{
		{"error: cannot fork() for remote-https: Resource temporarily unavailable", 3},
		{"fatal: the remote end hung up unexpectedly", 1},
	} {
		s := newSite(t)
		tries := 0
		s.Run = func(ctx context.Context, cmd Command) (int, error) {
			if !slices.Contains(cmd.Args, "push") {
				return here(ctx, cmd)
			}
			if tries++; tries > 2 {
				return here(ctx, cmd)
			}
			_, err := fmt.Fprintln(cmd.Stderr, c.says)
			return 128, err
		}
		_, err := s.Push(t.Context(), workBranch, false)
		if (err == nil) != (c.tries == 3) || tries != c.tries {
			t.Errorf("%s: %d tries, want %d: %v", c.says, tries, c.tries, err)
		}
	}
}
