package checkout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// gitEnv makes git use English messages and never prompt.
var gitEnv = []string{
	"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "GIT_EDITOR=true",
	"GIT_PAGER=cat", "GIT_LFS_SKIP_SMUDGE=1", "GIT_OPTIONAL_LOCKS=0",
}

// maxOutput limits the output of a command, in bytes.
const maxOutput = 1 << 20

var errLimit = errors.New("timed out")

// limited runs c with a timeout of d.
func (r *Repository) limited(ctx context.Context, d time.Duration, c Command) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("%w (%s)", errLimit, d))
	defer cancel()
	exit, err := r.Run(ctx, c)
	if err != nil {
		return exit, fmt.Errorf("%s %s: %w", c.Args[0], c.Args[1], err)
	}
	return exit, nil
}

// git runs git in the clone and returns its output. A non-zero exit status is a
// [*Failure].
func (r *Repository) git(ctx context.Context, d time.Duration, args ...string) (string, error) {
	return r.answer(ctx, d, r.gitCommand(args...))
}

// gitCommand returns a git command that uses the clone and its configuration.
func (r *Repository) gitCommand(args ...string) Command {
	git := r.plainGit()
	return Command{Args: git.Args(args...), Env: git.Environ(), Clean: true, Dir: r.Path}
}

func (r *Repository) command(ctx context.Context, d time.Duration, args ...string) (string, error) {
	return r.answer(ctx, d, Command{Args: args, Dir: r.Path, Env: gitEnv})
}

// answer runs a command and returns its output.
func (r *Repository) answer(ctx context.Context, d time.Duration, c Command) (string, error) {
	out, words := &bounded{limit: maxOutput}, newTail(nil)
	c.Stdout, c.Stderr = out, words
	exit, err := r.limited(ctx, d, c)
	if err != nil {
		return "", err
	}
	if exit != 0 {
		return "", r.failure(words)
	}
	return out.String(), nil
}

// bounded is a writer that keeps the bytes up to a limit, and then returns an
// error.
type bounded struct {
	buffer bytes.Buffer // not embedded: its ReadFrom has no limit
	limit  int
	full   bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.buffer.Len(); len(p) > room {
		b.full = true
		n, _ := b.buffer.Write(p[:room]) // never fails
		return n, io.ErrShortWrite
	}
	return b.buffer.Write(p)
}

func (b *bounded) String() string { return b.buffer.String() }
