package loop

import (
	"context"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	"aloft/internal/fault"
)

// hooked commits or pushes with the project's git hooks. If the hooks refuse,
// hooked tells the model, at most maxRefusals times in a run. After that, or if
// last says that the model will not be asked again, hooked skips the hooks.
func (l *Loop) hooked(ctx context.Context, last bool, do func(skipHooks bool) (remote.Delivered, error)) (done remote.Delivered, notified bool, err error) {
	done, err = do(false)
	f := fault.Of(err)
	switch {
	case err == nil || f.Code != journal.HookFailed:
		return done, false, err
	case !last && l.rec.Unhooked() < maxRefusals:
		return done, true, l.rec.Record(ctx, &agent.Notice{Text: hookRefused(f.Message), Code: journal.HookFailed})
	}
	done, err = do(true)
	return done, false, err
}

// hookRefused tells the model what the project's git hooks said.
func hookRefused(why string) string {
	return "Your work is not delivered yet. " + why +
		"\nFix what the hook found, in the files or in the commits; do not disable the hook. If it cannot pass in this machine, say so in your final message. " +
		"The commit and the push are retried when you finish."
}

// result returns the result of a run: the model's last message, and which git
// hooks were skipped.
func (l *Loop) result() string {
	s := l.rec.Snapshot()
	said := s.LastWords()
	if len(s.Run.Unhooked) > 0 {
		said = strings.TrimSpace(said + "\n\nDelivered without the project's git hooks: " + strings.Join(s.Run.Unhooked, "; ") + ".")
	}
	return said
}
