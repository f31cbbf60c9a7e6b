package api

import (
	"context"
	"time"
)

// expireEvery is how often the server looks for agents whose retention period
// of some days has passed.
const expireEvery = time.Hour

// expire periodically deletes expired agents, and stored replies for repeated
// requests, until ctx ends. It retries failures in the next round.
func (s *server) expire(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		n, err := s.agents.Expire(ctx, time.Now())
		if err != nil && ctx.Err() == nil {
			s.Logger.ErrorContext(ctx, "cannot delete all expired agents", "error", err)
		}
		if n > 0 {
			s.Logger.InfoContext(ctx, "deleted expired agents", "count", n)
		}
		if _, err := s.config.Replies.ForgetReplies(ctx, time.Now().Add(-repliesFor)); err != nil && ctx.Err() == nil {
			s.Logger.ErrorContext(ctx, "cannot delete expired idempotent replies", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
