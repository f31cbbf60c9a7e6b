package lsp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aloft/internal/atomicfile"
	"aloft/internal/gitcmd"
	"aloft/internal/guest/ripgrep"
)

// mark is a point in a tree's history; files changed since then are linted by
// default.
type mark struct {
	Head string    // the commit that was checked out; empty without git
	Time time.Time // for trees without git
}

// readMark reads the mark from a file. If the file does not exist, readMark creates a
// mark of the current state and saves it there, so that the mark outlives this process.
func readMark(ctx context.Context, file, dir string, env []string) mark {
	var m mark
	if raw, err := os.ReadFile(file); err == nil && json.Unmarshal(raw, &m) == nil && !m.Time.IsZero() {
		return m
	}
	m = mark{Time: time.Now()}
	if out, status, err := git(ctx, dir, env, "rev-parse", "--verify", "--quiet", "HEAD"); err == nil && status == 0 {
		m.Head = strings.TrimSpace(string(out))
	}
	if raw, err := json.Marshal(m); err == nil && file != "" {
		// If it cannot be saved, the mark is valid as long as this process
		// lives.
		_ = os.MkdirAll(filepath.Dir(file), 0o700)
		_ = atomicfile.WriteUnsynced(file, raw, 0o600)
	}
	return m
}

// git runs git on the repository that contains dir, ignoring its configuration. If no
// repository contains dir, git returns a non-zero status.
func git(ctx context.Context, dir string, env []string, args ...string) ([]byte, int, error) {
	repo, ok := gitcmd.Find(dir)
	if !ok {
		return nil, 128, nil
	}
	standIn, err := os.MkdirTemp("", "aloft-git-")
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = os.RemoveAll(standIn) }() // a restart of the machine removes leftovers
	system := os.Getenv("GIT_CONFIG_SYSTEM")     //nolint:forbidigo // pod-daemon sets this variable
	g := gitcmd.Git{Config: [][2]string{{"core.quotePath", "false"}}, System: system}
	if g, err = g.On(repo, standIn); err != nil {
		return nil, 0, err
	}
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	cmd := g.Args(args...)
	out, _, status, err := output(ctx, cmd[0], cmd[1:], dir, append(env, g.Environ()...))
	return out, status, err
}

// changed returns the files of dir that have changed since the mark, including
// deleted ones, in order and at most maxChanged.
func (m mark) changed(ctx context.Context, rg, dir string, env []string) ([]string, error) {
	var names [][]byte
	since := cmp.Or(m.Head, "HEAD")
	tracked, status, err := git(ctx, dir, env, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--relative", since, "--")
	if err == nil && status != 0 && m.Head != "" { // the commit no longer exists
		tracked, status, err = git(ctx, dir, env, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--relative", "HEAD", "--")
	}
	noCommit := false
	if err == nil && status != 0 {
		_, status, err = git(ctx, dir, env, "rev-parse", "--is-inside-work-tree")
		noCommit = err == nil && status == 0
	}
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if err != nil || status != 0 {
		return m.touched(ctx, rg, dir, env)
	}
	names = bytes.Split(tracked, []byte{0})
	which := []string{"ls-files", "-z", "--others", "--exclude-standard"}
	if noCommit { // every file is new
		names, which = nil, append(which, "--cached")
	}
	others, _, err := git(ctx, dir, env, which...)
	if err != nil {
		return nil, err
	}
	names = append(names, bytes.Split(others, []byte{0})...)
	return absolute(dir, names), nil
}

const maxChanged = 5000

func absolute(dir string, names [][]byte) []string {
	var out []string
	for _, n := range names {
		if len(n) > 0 && len(out) < maxChanged {
			out = append(out, filepath.Join(dir, string(n)))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// touched is like changed, for a tree without git.
func (m mark) touched(ctx context.Context, rg, dir string, env []string) ([]string, error) {
	all, err := listFiles(ctx, rg, dir, env)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(path string) bool {
		info, err := os.Lstat(path)
		return err != nil || info.ModTime().Before(m.Time)
	}), nil
}

// listFiles lists the files under a folder that git does not ignore.
func listFiles(ctx context.Context, rg, dir string, env []string) ([]string, error) {
	command := append(ripgrep.Command(rg), "--no-config", "--no-messages", "--hidden", "--no-require-git", "--glob=!.git", "--null", "--files", "./")
	out, stderr, status, err := output(ctx, command[0], command[1:], dir, env)
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", dir, err)
	}
	if status > 1 && len(out) == 0 && len(stderr) > 0 {
		return nil, fmt.Errorf("list the files of %s: %s", dir, clip(string(stderr), 300))
	}
	if end := bytes.LastIndexByte(out, 0); end >= 0 {
		out = out[:end] // the last line was cut off
	}
	return absolute(dir, bytes.Split(out, []byte{0})), nil
}
