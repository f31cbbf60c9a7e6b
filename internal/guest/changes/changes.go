// Package changes compares a workspace with a commit. It runs git without the
// repository's configuration, which the agent can write and which may name programs.
package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aloft/internal/fault"
	"aloft/internal/gitcmd"
	"aloft/internal/guest/file"
	"aloft/internal/text"
)

// gitTimeout is the timeout of one git command. It is generous, because a
// workspace may be of any size.
const gitTimeout = 60 * time.Second

// emptyTree is the hash of git's empty tree. A repository without commits is
// compared with it.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// Diff writes the diff of dir's working tree against base to w, in unified
// format with full object names. An empty base means HEAD. Untracked files are
// included, files that git ignores are not. The repository and its index are
// not modified. Files that unseen hides are omitted; a nil unseen hides none.
func Diff(ctx context.Context, dir, base string, w io.Writer, unseen *file.Unseen) error {
	ctx, cancel := context.WithTimeoutCause(ctx, gitTimeout,
		fault.Exhausted("git took longer than %s to compare the workspace", gitTimeout))
	defer cancel()
	repo, ok := gitcmd.Find(dir)
	if !ok {
		return fault.Conflict("%s is not a git repository", dir)
	}
	scratch, err := os.MkdirTemp("", "aloft-diff-*")
	if err != nil {
		return fmt.Errorf("diff: %w", err)
	}
	defer os.RemoveAll(scratch)
	// Ignore the workspace's git configuration, which the agent can write and
	// which may name filters and other programs. Commands of the agent run in
	// its sandbox; programs started from here would not.
	at, err := gitcmd.Git{System: os.Getenv("GIT_CONFIG_SYSTEM")}.On(repo, filepath.Join(scratch, "git")) //nolint:forbidigo // pod-daemon sets this variable
	if err != nil {
		return fmt.Errorf("diff: %w", err)
	}
	git := workspaceGit{at, dir}
	commit, err := git.resolve(ctx, base)
	if err != nil {
		return err
	}
	// git diff shows an untracked file only if the index has an entry for it.
	// Add the entries to a copy of the index; because of the copy, git need not
	// read unchanged files.
	index := filepath.Join(scratch, "index")
	if err := copyIndex(filepath.Join(repo.GitDir, "index"), index); err != nil {
		return err
	}
	env := "GIT_INDEX_FILE=" + index
	var untracked bytes.Buffer
	if err := git.run(ctx, env, nil, &untracked, "ls-files", "--others", "--exclude-standard", "-z"); err != nil {
		return err
	}
	if untracked.Len() > 0 {
		err := git.run(ctx, env, &untracked, nil, "--literal-pathspecs", "add", "--intent-to-add", "--force",
			"--pathspec-from-file=-", "--pathspec-file-nul")
		if err != nil {
			return err
		}
	}
	var without []string
	if unseen != nil {
		if without, err = git.withoutHidden(ctx, env, commit, unseen); err != nil {
			return err
		}
	}
	return git.run(ctx, env, nil, w, append([]string{"-c", "core.quotepath=off", "diff", "--full-index", "--no-color",
		"--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", commit, "--"}, without...)...)
}

// maxHiddenBytes limits the total length of the names of hidden files, which
// are passed to git as arguments.
const maxHiddenBytes = 1 << 20

// withoutHidden returns pathspecs that exclude the changed files that unseen
// hides.
func (g workspaceGit) withoutHidden(ctx context.Context, env, commit string, unseen *file.Unseen) ([]string, error) {
	var changed bytes.Buffer
	if err := g.run(ctx, env, nil, &changed, "diff", "--name-only", "--relative", "--no-renames", "--no-ext-diff", "-z", commit, "--"); err != nil {
		return nil, err
	}
	var without []string
	known, size := map[string]bool{}, 0
	for name := range strings.SplitSeq(changed.String(), "\x00") {
		by := unseen.Covers(name, false)
		if by == "" || known[by] {
			continue
		}
		known[by] = true
		if size += len(by); size > maxHiddenBytes {
			return nil, fault.Exhausted("too many of the changed files are hidden by .cursorignore").
				Hint("list their folder in .cursorignore instead")
		}
		without = append(without, ":(exclude,literal)"+by)
	}
	if len(without) > 0 {
		without = append([]string{":/"}, without...)
	}
	return without, nil
}

// resolve returns the object to compare with.
func (g workspaceGit) resolve(ctx context.Context, base string) (string, error) {
	name := base
	if name == "" {
		name = "HEAD"
	}
	var commit bytes.Buffer
	err := g.run(ctx, "", nil, &commit, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err == nil {
		return strings.TrimSpace(commit.String()), nil
	}
	if g.run(ctx, "", nil, nil, "rev-parse", "--git-dir") != nil {
		return "", fault.Conflict("%s is not a git repository", g.dir).Because(err)
	}
	if base == "" {
		return emptyTree, nil
	}
	return "", fault.NotFound("no commit %q", text.Head(base, 128)).At("base").Because(err)
}

func copyIndex(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the repository has no index yet
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(from)
	}
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err == nil {
		// Keep the index's modification time: git reads again the files that
		// are not older than it.
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	if err != nil {
		return fmt.Errorf("diff: copy the index: %w", err)
	}
	return nil
}

// workspaceGit runs git on the repository that a folder is in.
type workspaceGit struct {
	git gitcmd.Git
	dir string
}

// run runs git in the folder. The error includes the end of git's error output.
func (g workspaceGit) run(ctx context.Context, env string, stdin io.Reader, stdout io.Writer, args ...string) error {
	cmd := g.git.Command(ctx, args...)
	cmd.Dir = g.dir
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	stderr := &Head{Limit: 2 << 10}
	cmd.Stderr = stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Text))
	}
	return nil
}

// A Head keeps the first bytes that are written to it and discards the rest. It is
// not safe for concurrent use.
type Head struct {
	Limit int // number of bytes to keep
	Text  []byte
	More  bool // some bytes were discarded
}

// Write implements [io.Writer]. It never fails.
func (h *Head) Write(p []byte) (int, error) {
	room := min(len(p), h.Limit-len(h.Text))
	h.Text = append(h.Text, p[:room]...)
	h.More = h.More || room < len(p)
	return len(p), nil
}
