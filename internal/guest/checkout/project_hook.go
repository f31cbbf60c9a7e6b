package checkout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// hookLimit is the default timeout of the project's hooks, which may run long
// tests or wait for input.
const hookLimit = 5 * time.Minute

// hooks reports whether the project has one of the named git hooks, wherever
// its configuration puts them. If that cannot be determined, the note says why.
func (r *Repository) hooks(ctx context.Context, names ...string) (has bool, note string, err error) {
	const script = `dir=$(git rev-parse --git-path hooks) || exit 3
for name; do [ -f "$dir/$name" ] && [ -x "$dir/$name" ] && exit 0; done
exit 1`
	words := newTail(nil)
	exit, err := r.limited(ctx, quickLimit, Command{
		Args: append([]string{"sh", "-c", script, "sh"}, names...), Dir: r.Path, Env: gitEnv, Hooks: true, Stderr: words,
	})
	if exit > 1 && err == nil {
		note = "the project's hooks were not run: " + r.failure(words).Detail
	}
	return exit == 0, note, err
}

// prePush runs the project's pre-push hook as git would, if there is one.
func (r *Repository) prePush(ctx context.Context, head, branch, remote string) error {
	const script = `hook=$(git rev-parse --git-path hooks/pre-push) || exit 1
case $hook in */*) ;; *) hook=./$hook ;; esac
exec "$hook" "$@"`
	ref := "refs/heads/" + branch
	if remote == "" {
		remote = strings.Repeat("0", len(head))
	}
	return r.hooked(ctx, Command{
		Args:  []string{"sh", "-c", script, "sh", "origin", r.URL},
		Stdin: fmt.Sprintf("%s %s %s %s\n", ref, head, ref, remote),
	})
}

// wrap wraps a command line with r.Around, if there is one.
func (r *Repository) wrap(argv []string) ([]string, error) {
	if r.Around == nil {
		return argv, nil
	}
	return r.Around(argv)
}

// hooked runs a command that runs the project's hooks, as the agent's user,
// with the user's own configuration, a timeout, and r.Around. If it fails or
// times out, the error is a [*Failure] with [CodeHookFailed].
func (r *Repository) hooked(ctx context.Context, c Command) error {
	words, limit := newTail(nil), cmp.Or(r.HookLimit, hookLimit)
	var err error
	if c.Args, err = r.wrap(c.Args); err != nil {
		return err
	}
	c.Dir, c.Env, c.Hooks, c.Stdout, c.Stderr = r.Path, gitEnv, true, words, words
	exit, err := r.limited(ctx, limit, c)
	switch {
	case errors.Is(err, errLimit):
		return r.refused(words, fmt.Sprintf("it did not finish within %s", limit))
	case err != nil:
		return err
	case exit != 0:
		return r.refused(words, fmt.Sprintf("exit status %d", exit))
	}
	return nil
}

// refused returns the failure for a hook that rejected the operation.
func (r *Repository) refused(words *tail, how string) *Failure {
	output := words.last(maxHook)
	if r.Secret != "" {
		output = strings.ReplaceAll(output, r.Secret, "***")
	}
	return &Failure{CodeHookFailed, output + "\n(" + how + ")"}
}
