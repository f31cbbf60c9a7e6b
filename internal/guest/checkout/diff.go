package checkout

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// MaxDiff bounds a diff, in bytes.
const MaxDiff = 4 << 20

// emptyTree is the tree without a file, which every repository knows.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

var commitName = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// Diff is the difference of the working tree from a commit, untracked files
// that git does not ignore included; base "" is the commit checked out first.
// scratch is a folder of the user's. The user's index is left alone. A diff
// longer than [MaxDiff] is cut at a line, and truncated says so.
func (r *Repository) Diff(ctx context.Context, base, scratch string) (diff string, truncated bool, err error) {
	if base == "" {
		state, err := r.recall()
		if err != nil {
			return "", false, err
		}
		if base = state.Base; base == "" {
			base = emptyTree
		}
	}
	if !commitName.MatchString(base) {
		return "", false, &Failure{CodeRefNotFound, fmt.Sprintf("%q is not a commit's name in full", base)}
	}
	git, err := r.own()
	if err != nil {
		return "", false, err
	}
	at, err := git.position(ctx)
	if err != nil {
		return "", false, err
	}
	index := filepath.Join(scratch, "index-"+rand.Text())
	defer func() { _, _ = r.command(context.WithoutCancel(ctx), quickLimit, "rm", "-f", index, index+".lock") }()
	// A copy of the user's index spares git from reading every file again. It
	// is made by the user, who cannot be misled into a file that is not theirs. By
	// its time git knows which files may have changed in the moment it was written in.
	_, err = r.command(ctx, quickLimit, "cp", "-p", "--", filepath.Join(git.gitDir, "index"), index)
	if _, refused := errors.AsType[*Failure](err); err != nil && !refused {
		return "", false, err
	} // where there is no index yet, git makes one
	tree, err := git.stage(ctx, at.head, index)
	if err != nil {
		return "", false, err
	}
	out, words := &bounded{limit: MaxDiff}, newTail(nil)
	exit, err := r.limited(ctx, localLimit, Command{
		Args: git.git.Args("-c", "core.quotePath=false", "diff-tree", "-r", "-p", "--no-color", "--no-ext-diff",
			"--no-textconv", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/", base, tree, "--"),
		Dir: r.Path, Env: append(git.git.Environ(), "GIT_INDEX_FILE="+index), Clean: true, Stdout: out, Stderr: words,
	})
	switch {
	case out.full:
		diff = out.String()
		diff = diff[:strings.LastIndexByte(diff, '\n')+1]
		return strings.ToValidUTF8(diff, "\uFFFD"), true, nil
	case err != nil:
		return "", false, err
	case exit != 0:
		return "", false, r.failure(words)
	}
	return strings.ToValidUTF8(out.String(), "\uFFFD"), false, nil
}
