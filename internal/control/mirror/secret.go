package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"aloft/internal/control/mirror/scan"
)

// maxScan is the maximum unpacked size in bytes of all objects of one push.
const maxScan = 64 << 30

// secrets searches the file contents, file names and commit messages of a push
// for secrets. It streams the objects from git once and keeps none in memory.
func (m *Mirror) secrets(ctx context.Context, u Update, objects string) (Outcome, error) {
	if u.Secrets.Empty() {
		return Outcome{}, nil
	}
	// Stop both commands on every return.
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	// List the oldest commit first and objects after their commit, since the
	// oldest commit is the one to fix.
	listed, list := io.Pipe()
	defer listed.Close()
	running.Go(func() {
		args := []string{"rev-list", "--objects", "--in-commit-order", "--reverse", "--stdin", "--not", "--all"}
		_, _, err := m.git(ctx, invocation{args: args, objects: objects, stdin: strings.NewReader(u.New + "\n"), stdout: list})
		list.CloseWithError(err)
	})
	asked, ask := io.Pipe()
	defer asked.Close()
	told, tell := io.Pipe()
	defer told.Close()
	running.Go(func() {
		_, _, err := m.git(ctx, invocation{args: []string{"cat-file", "--batch"}, objects: objects, stdin: asked, stdout: tell})
		tell.CloseWithError(err)
	})
	s := scan.New(u.Secrets, told, maxScan)
	running.Go(func() { ask.CloseWithError(s.List(ctx, listed, ask)) })
	found, err := s.Run()
	switch {
	case ctx.Err() != nil:
		return Outcome{}, context.Cause(ctx)
	case errors.Is(err, scan.ErrTooMuch):
		return rejected("too_large", "push unpacks to too much",
			fmt.Sprintf("The push contains more than %d GiB, the most that this server scans for secrets.", maxScan>>30)), nil
	case err != nil:
		return Outcome{}, fmt.Errorf("look for secrets in a push: %w", err)
	case len(found) > 0:
		return refuseSecret(u, found), nil
	}
	return Outcome{}, nil
}

// refuseSecret returns a refusal that names the locations but not the values of
// the secrets.
func refuseSecret(u Update, found []scan.Location) Outcome {
	words := []string{"The push contains a secret, so it was refused:"}
	for _, p := range found {
		words = append(words, "  "+Plain(u.Secrets.String(p.String())))
	}
	words = append(words,
		"Remove the value from every commit that contains it (git commit --amend, git rebase -i), and push again.",
		"Where the value is needed, use the variable that contains it.")
	return rejected(CodeSecretInPush, "secret in push", strings.Join(words, "\n"))
}
