package schedule

import (
	"context"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/wire/mux"
)

// TestMachineThatFloodsItsConnectionEndsItsRun has a machine open streams without
// end. The connection is ended and not made again: the run ends, once, and says why.
func TestMachineThatFloodsItsConnectionEndsItsRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.guests.evil.connected = func(ctx context.Context, c *mux.Conn) {
		for {
			if _, err := c.Open(ctx, mux.Git); err != nil {
				return
			}
		}
	}
	id := s.agent()
	s.run()
	_, end := s.ended(id, 0)
	if end.Status != agent.Failed || end.Failure == nil || end.Failure.Code != "machine_flood" {
		t.Errorf("the run ended with %+v, %+v", end, end.Failure)
	}
}
