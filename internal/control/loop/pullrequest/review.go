package pullrequest

import (
	"context"
	"errors"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/pull"
	"aloft/internal/fault"
)

// postWithin is how long the end of a run waits for a review to be posted.
const postWithin = 5 * time.Minute

// PostReview posts the findings of a reviewing agent on the pull request under
// review, once in a run, and only if there is something new. The review is
// journaled first, so that after a crash the same review is posted, unless the
// forge already has it. If posting fails, the reason is journaled, and the next
// run tries again. complete means that the agent has ended its work itself.
func (r *Requests) PostReview(ctx context.Context, complete bool) error {
	s := r.Recorder.Snapshot()
	if s.Review == nil || s.Review.PullRequest == nil || s.Composed == nil && !hasNews(s) {
		return nil
	}
	of := *s.Review.PullRequest
	if r.Pulls == nil {
		return r.notPosted(ctx, errNoForges())
	}
	if s.Composed == nil {
		composed, err := r.Pulls.ComposeReview(ctx, s, complete)
		if err != nil {
			if ctx.Err() != nil || !fault.Has(err) {
				return errors.Join(context.Cause(ctx), err)
			}
			return r.notPosted(ctx, err)
		}
		if err := r.Recorder.Record(ctx, &composed); err != nil {
			return err
		}
		s = r.Recorder.Snapshot()
	}
	within, cancel := context.WithTimeout(ctx, postWithin)
	defer cancel()
	posted, err := r.Pulls.PostReview(within, of, *s.Composed)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		err = fault.Unavailable("the forge did not answer in %v", postWithin).Named("forge_unreachable").Hint("send the agent a follow-up, then it tries again")
	}
	if err != nil {
		return r.notPosted(ctx, err)
	}
	return r.Recorder.Record(ctx, &posted)
}

// hasNews reports whether the run has to post a review, because none was posted
// yet or because some findings were not posted.
func hasNews(s *agent.State) bool {
	switch {
	case s.Post == nil:
		return true
	case s.Post.RunID == s.Run.ID:
		return false
	}
	return s.Post.Failure != nil || len(s.Findings) > len(s.Told)
}

// notPosted journals why a review was not posted.
func (r *Requests) notPosted(ctx context.Context, err error) error {
	failure := pull.FailureOf(err)
	r.Log.Warn("cannot post a review", "code", failure.Code, "error", err)
	return r.Recorder.Record(ctx, &agent.ReviewNotPosted{Failure: failure})
}
