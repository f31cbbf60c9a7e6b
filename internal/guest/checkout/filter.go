package checkout

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"aloft/internal/gitcmd"
)

// ownFilters are the values of the attribute "filter" for which a file can be committed
// here: values for no filter, and filters that the machine's own configuration defines.
var ownFilters = []string{"unspecified", "unset", "set", "lfs"}

// maxNames limits the list of a commit's changed files, in bytes. A million files fit.
const maxNames = 128 << 20

// keepFiltered resets files in the index to their version in head if .gitattributes
// names a filter of the project for them, such as git-crypt. Project filters do not run
// here, and without its filter a file would be committed in plain text. The attributes
// come from the commit that was first checked out, because the agent could change them
// to hide its changes.
func (g *ownGit) keepFiltered(ctx context.Context, head string, env []string) error {
	g.filtered = nil
	if g.base == "" {
		return nil
	}
	from := head
	if from == "" {
		from = emptyTree
	}
	names, err := g.startUpTo(ctx, maxNames, Command{Args: []string{"diff-index", "--cached", "--no-renames", "--name-only", "-z", from}, Env: env})
	if err != nil || names == "" {
		return err
	}
	// Put the index next to the clone's: git runs as the user, who cannot write to Own.
	file := filepath.Join(g.gitDir, "aloft-attributes.index")
	defer func() {
		_, _ = g.r.command(context.WithoutCancel(ctx), quickLimit, "rm", "-f", "--", file, file+".lock")
	}()
	index := []string{"GIT_INDEX_FILE=" + file}
	if _, err := g.start(ctx, Command{Args: []string{"read-tree", g.base}, Env: index}); err != nil {
		return err
	}
	attributes, err := g.startUpTo(ctx, maxNames, Command{Args: []string{"check-attr", "-z", "--cached", "--stdin", "filter"}, Env: index, Stdin: names})
	if err != nil {
		return err
	}
	fields := strings.Split(strings.TrimSuffix(attributes, "\x00"), "\x00") // groups of three: name, "filter", value
	for i := 0; i+2 < len(fields); i += 3 {
		if !slices.Contains(ownFilters, fields[i+2]) {
			g.filtered = append(g.filtered, fields[i])
		}
	}
	if len(g.filtered) == 0 {
		return nil
	}
	_, err = g.start(ctx, Command{
		Args: []string{"--literal-pathspecs", "reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul", from},
		Env:  env, Stdin: strings.Join(g.filtered, "\x00"),
	})
	return err
}

// unfiltered returns a [*Failure] with [CodeHookFailed] if any of the files that
// keepFiltered reset has changed according to the user's own git.
func (r *Repository) unfiltered(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	// This command runs the project's filters.
	argv, err := r.wrap(gitcmd.AsUser(append([]string{"-c", "core.fsmonitor=false", "--literal-pathspecs", "status", "--porcelain", "--"}, names[:min(len(names), 100)]...)...))
	if err != nil {
		return err
	}
	out, words := &bounded{limit: maxOutput}, newTail(nil)
	exit, err := r.limited(ctx, quickLimit, Command{Args: argv, Dir: r.Path, Env: gitEnv, Stdout: out, Stderr: words})
	if err != nil || exit == 0 && out.String() == "" {
		return err
	}
	return &Failure{CodeHookFailed, fmt.Sprintf("%s: .gitattributes applies a git filter of the project, which only your own git runs. "+
		"Commit it yourself with git commit", strings.Join(names[:min(len(names), 5)], ", "))}
}
