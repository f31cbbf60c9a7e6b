package loop

import (
	"context"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/fault"
)

// Delivered is what a commit or a push did.
type Delivered struct {
	Commit string // where the repository stands now, or its branch on the remote
	Made   bool   // of a commit: something was uncommitted
	Note   string // why the project's git hooks did not let it pass, or were not run; "" if they did
}

// hookFailed is the code of a commit or a push that the project's git hooks refused.
const hookFailed = "hook_failed"

// hooked commits or pushes with the project's git hooks. Where they refuse, the
// model is told, at most maxRefusals times in a run. After that, and where last
// says that the model is not asked again, it is done without them.
func (l *Loop) hooked(ctx context.Context, last bool, do func(skipHooks bool) (Delivered, error)) (done Delivered, told bool, err error) {
	done, err = do(false)
	f := fault.Of(err)
	switch {
	case err == nil || f.Code != hookFailed:
		return done, false, err
	case !last && l.rec.unhooked < maxRefusals:
		return done, true, l.rec.record(ctx, &agent.Notice{Text: hookRefused(f.Message), Code: hookFailed})
	}
	done, err = do(true)
	return done, false, err
}

// hookRefused tells the model what the project's git hooks said.
func hookRefused(why string) string {
	return "Your work is not delivered yet. " + why +
		"\nFix what the hook found, in the files or in the commits; do not disable the hook. If it cannot pass in this machine, say so in your last words. " +
		"The commit and the push are tried again when you finish."
}

// result is what the run says at its end: the model's last words, and which of the
// project's git hooks were passed over.
func (l *Loop) result() string {
	s := l.rec.snapshot()
	said := s.LastWords()
	if len(s.Run.Unhooked) > 0 {
		said = strings.TrimSpace(said + "\n\nDelivered without the project's git hooks: " + strings.Join(s.Run.Unhooked, "; ") + ".")
	}
	return said
}
