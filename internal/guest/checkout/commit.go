package checkout

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"
)

// hookLimit bounds a commit with the repository's own hooks, which may do
// anything, as to wait for a person.
const hookLimit = 2 * time.Minute

// Committed is what Commit did.
type Committed struct {
	Commit string // HEAD; "" where there is no commit at all
	Made   bool
	Note   string // for the user; "" if there is nothing to say
}

// Commit commits whatever is changed in the clone. A hook of the repository
// that refuses, or does not come to an end, is passed over, and the note says so.
// A lock that a killed git left behind is removed.
func (r *Repository) Commit(ctx context.Context, message string) (Committed, error) {
	if strings.TrimSpace(message) == "" {
		return Committed{}, &Failure{CodeInternal, "a commit needs a message"}
	}
	add := func() error {
		_, err := r.git(ctx, localLimit, "add", "--all")
		return err
	}
	if err := r.unlocked(ctx, add); err != nil {
		return Committed{}, err
	}
	words := newTail(nil)
	exit, err := r.limited(ctx, localLimit, Command{
		Args: []string{"git", "diff", "--cached", "--quiet"}, Dir: r.Path, Env: gitEnv, Stderr: words,
	})
	if err != nil {
		return Committed{}, err
	}
	var done Committed
	switch exit {
	case 0: // nothing is changed
	case 1:
		if done.Note, err = r.commitStaged(ctx, message); err != nil {
			return Committed{}, err
		}
		done.Made = true
	default:
		return Committed{}, r.failure(words)
	}
	done.Commit, err = r.head(ctx)
	return done, err
}

func (r *Repository) commitStaged(ctx context.Context, message string) (note string, err error) {
	refused := r.commitOnce(ctx, message)
	if refused == nil || ctx.Err() != nil {
		return "", refused
	}
	if err := r.commitOnce(ctx, message, "--no-verify"); err != nil {
		return "", err
	}
	return "committed without the repository's hooks, which did not let it pass: " + brief(refused), nil
}

func (r *Repository) commitOnce(ctx context.Context, message string, args ...string) error {
	return r.unlocked(ctx, func() error {
		words := newTail(nil)
		exit, err := r.limited(ctx, hookLimit, Command{
			Args: append([]string{"git", "commit", "--quiet", "--file=-"}, args...),
			Dir:  r.Path, Env: gitEnv, Stdin: message, Stdout: io.Discard, Stderr: words,
		})
		if err == nil && exit != 0 {
			return r.failure(words)
		}
		return err
	})
}

// brief is an error in few words.
func brief(err error) string {
	const most = 400
	s := err.Error()
	if f, ok := errors.AsType[*Failure](err); ok {
		s = f.Detail
	}
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
