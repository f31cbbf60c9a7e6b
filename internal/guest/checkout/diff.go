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

// MaxDiff is the longest diff, in bytes.
const MaxDiff = 4 << 20

// emptyTree is the hash of git's empty tree, which every repository has.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

var commitName = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// Diff returns the working tree's diff against a commit, including untracked
// files that git does not ignore. An empty base means the commit that was first
// checked out. scratch is a folder of the user's. The user's index is not
// modified. A diff longer than [MaxDiff] is truncated at a line, and truncated
// is set.
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
		return "", false, &Failure{CodeRefNotFound, fmt.Sprintf("%q is not a full commit hash", base)}
	}
	git, err := r.prepareOwn()
	if err != nil {
		return "", false, err
	}
	at, err := git.position(ctx)
	if err != nil {
		return "", false, err
	}
	index := filepath.Join(scratch, "index-"+rand.Text())
	defer func() { _, _ = r.command(context.WithoutCancel(ctx), quickLimit, "rm", "-f", index, index+".lock") }()
	// With a copy of the user's index, git need not read every file again. The
	// user's cp makes the copy, so that a symbolic link cannot make root read
	// another file. It keeps the modification time, which git uses to decide
	// which files may have changed in the same instant.
	_, err = r.command(ctx, quickLimit, "cp", "-p", "--", filepath.Join(git.gitDir, "index"), index)
	if _, refused := errors.AsType[*Failure](err); err != nil && !refused {
		return "", false, err
	} // without an index, git creates one
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
