package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aloft/internal/gitcmd"
)

// ownGit runs git on the clone with our own git directory. It uses the clone's
// refs and objects but not its configuration, which the agent may have damaged
// or made to run programs. Each operation makes its own ownGit.
type ownGit struct {
	r         *Repository
	gitDir    string // the clone's git directory, with HEAD and the index
	commonDir string // the clone's common directory, with refs and objects
	standIn   gitcmd.StandIn
	git       gitcmd.Git
	base      string   // commit that was first checked out; "" in an empty repository
	branch    string   // branch that was first checked out; "" if HEAD was detached
	filtered  []string // files that the last stage kept as in HEAD; see keepFiltered
}

// cloneHead is the name of the clone's HEAD in our git directory, which needs a
// HEAD of its own.
const cloneHead = "CLONE_HEAD"

// prepareOwn prepares our git directory. It belongs to root, so the agent cannot
// change it.
func (r *Repository) prepareOwn() (*ownGit, error) {
	state, err := r.recall()
	if err != nil {
		return nil, err
	}
	at, ok := gitcmd.Open(r.Path)
	if !ok {
		at.GitDir = filepath.Join(r.Path, ".git")
		at.CommonDir = at.GitDir
	}
	g := &ownGit{r: r, gitDir: at.GitDir, commonDir: at.CommonDir}
	if state.Path == r.Path {
		g.base, g.branch = state.Base, state.Branch
	}
	for _, value := range []string{g.gitDir, g.commonDir, r.URL} {
		if strings.ContainsFunc(value, isControl) {
			return nil, &Failure{CodeInternal, fmt.Sprintf("%q is not allowed in git's configuration", value)}
		}
	}
	g.standIn = gitcmd.StandIn{Dir: r.Own, Common: g.commonDir, SHA256: len(g.base) == 64, Config: "[core]\n" +
		"\texcludesFile = " + quote(filepath.Join(g.commonDir, "info/exclude")) + "\n" +
		"[remote \"origin\"]\n\turl = " + quote(g.r.URL) + // git-lfs reads refs/remotes/origin to find objects that need no upload
		"\n[diff]\n\tignoreSubmodules = dirty\n" +
		"[lfs]\n\trepositoryformatversion = 0\n\tstorage = " + quote(filepath.Join(g.commonDir, "lfs")) + "\n"}
	if err := g.standIn.Lay(); err != nil {
		return nil, fmt.Errorf("ready git: %w", err)
	}
	if err := gitcmd.Link(filepath.Join(g.gitDir, "HEAD"), filepath.Join(r.Own, cloneHead)); err != nil {
		return nil, fmt.Errorf("ready git: %w", err)
	}
	g.git = r.plainGit()
	g.git.Home = r.Own
	g.git.Env = []string{"GIT_DIR=" + r.Own, "GIT_WORK_TREE=" + r.Path, "GIT_INDEX_FILE=" + filepath.Join(g.gitDir, "index")}
	return g, nil
}

// plainGit returns a git that only uses the machine's configuration and that of
// the repository it works on.
func (r *Repository) plainGit() gitcmd.Git { return gitcmd.Git{System: r.System} }

// setHead sets the HEAD of our git directory to a commit or a symbolic ref.
func (g *ownGit) setHead(to string) error { return g.standIn.SetHead(to) }

// setCloneHead sets the clone's HEAD to a commit or a symbolic ref.
func (g *ownGit) setCloneHead(ctx context.Context, to string) error {
	const script = `printf '%s\n' "$1" > "$2.aloft" && mv -f -- "$2.aloft" "$2"`
	_, err := g.r.command(ctx, quickLimit, "sh", "-c", script, "sh", to, filepath.Join(g.gitDir, "HEAD"))
	return err
}

// run runs git and returns its output. A non-zero exit status is a [*Failure].
func (g *ownGit) run(ctx context.Context, args ...string) (string, error) {
	return g.start(ctx, Command{Args: args})
}

// start runs git with c's arguments, input and environment, with the timeout
// localLimit.
func (g *ownGit) start(ctx context.Context, c Command) (string, error) {
	return g.startUpTo(ctx, maxOutput, c)
}

// startUpTo is like start, for output of at most limit bytes.
func (g *ownGit) startUpTo(ctx context.Context, limit int, c Command) (string, error) {
	return g.startWithin(ctx, localLimit, limit, c)
}

// startWithin is like startUpTo, with a timeout of d. If the machine's process limit
// keeps git from starting its processes, startWithin retries for up to roomWait: killed
// processes of the agent take a while to disappear. All commands of ownGit can be
// repeated.
func (g *ownGit) startWithin(ctx context.Context, d time.Duration, limit int, c Command) (string, error) {
	c.Args, c.Env = g.git.Args(c.Args...), append(g.git.Environ(), c.Env...)
	c.Dir, c.Clean = g.r.Path, true
	for giveUp := time.Now().Add(roomWait); ; {
		out, words := &bounded{limit: limit}, newTail(nil)
		c.Stdout, c.Stderr = out, words
		exit, err := g.r.limited(ctx, d, c)
		if err != nil {
			return "", err
		}
		if exit == 0 {
			return strings.TrimSuffix(out.String(), "\n"), nil
		}
		failed := g.r.failure(words)
		if !cannotFork(failed) || time.Now().After(giveUp) {
			return "", failed
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(roomPause):
		}
	}
}

// How long git waits until it may start its processes, and the delay between attempts.
const (
	roomWait  = 15 * time.Second
	roomPause = 100 * time.Millisecond
)

// cannotFork reports whether git failed because of the machine's process limit. git says
// "cannot fork", and for threads "unable to create thread", each with the C library's
// text of EAGAIN.
func cannotFork(f *Failure) bool {
	return strings.Contains(f.Detail, "Resource temporarily unavailable")
}

// commit returns the commit that a name refers to; "" if there is none.
func (g *ownGit) commit(ctx context.Context, name string) (string, error) {
	id, err := g.run(ctx, "rev-parse", "--quiet", "--verify", "--end-of-options", name+"^{commit}")
	if _, refused := errors.AsType[*Failure](err); refused {
		return "", nil
	}
	return id, err
}

// position is the current state of the clone's HEAD.
type position struct {
	head   string // commit; "" if there is none
	branch string // "" if HEAD is detached
	broken bool   // the clone's HEAD is missing or damaged
}

// position reads the clone's HEAD. If HEAD or the object that it refers to is lost, the
// position is on the branch that was first checked out.
func (g *ownGit) position(ctx context.Context) (position, error) {
	var at position
	name, err := g.run(ctx, "symbolic-ref", "--quiet", cloneHead)
	if _, refused := errors.AsType[*Failure](err); err != nil && !refused {
		return at, err
	}
	at.branch, _ = strings.CutPrefix(name, "refs/heads/")
	if at.head, err = g.commit(ctx, cloneHead); err != nil || at.head != "" {
		return at, err
	}
	if at.branch == "" {
		at.branch, at.broken = g.branch, true
	}
	if at.branch != "" {
		if at.head, err = g.commit(ctx, "refs/heads/"+at.branch); err != nil || at.head != "" {
			return at, err
		}
	}
	if !at.broken && g.base != "" && at.branch != g.branch {
		return at, nil // a new branch of the agent, without a commit
	}
	if at.head, err = g.commit(ctx, g.base); err != nil || at.head != "" || g.base == "" {
		return at, err
	}
	if err := g.restore(ctx); err != nil {
		return at, err
	}
	at.head, err = g.commit(ctx, g.base)
	return at, err
}

// restore fetches from the remote into a clone that has lost objects.
func (g *ownGit) restore(ctx context.Context) error {
	if _, err := g.r.command(ctx, quickLimit, "mkdir", "-p", filepath.Join(g.commonDir, "objects"), filepath.Join(g.commonDir, "refs")); err != nil {
		return err
	}
	_, err := g.run(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--end-of-options", g.r.URL, "+refs/heads/*:refs/remotes/origin/*")
	return err
}

// stage writes the working tree to the index file, or to the clone's index if index is
// "", and returns the tree. It recreates a damaged or missing index.
func (g *ownGit) stage(ctx context.Context, head, index string) (tree string, err error) {
	var env []string
	if index != "" {
		env = []string{"GIT_INDEX_FILE=" + index}
	} else {
		index = filepath.Join(g.gitDir, "index")
	}
	add := func() error {
		_, err := g.start(ctx, Command{Args: []string{"add", "--all"}, Env: env})
		return err
	}
	_, missing := os.Lstat(index)
	if missing == nil {
		err = g.r.unlocked(ctx, add)
	}
	f, refused := errors.AsType[*Failure](err)
	if missing != nil || refused && f.Code != CodeDiskFull && lockOf(err) == "" {
		if _, err := g.r.command(ctx, quickLimit, "rm", "-rf", "--", index); err != nil {
			return "", err
		}
		from := head
		if from == "" {
			from = "--empty"
		}
		if _, err := g.start(ctx, Command{Args: []string{"read-tree", from}, Env: env}); err != nil {
			return "", err
		}
		err = g.r.unlocked(ctx, add)
	}
	if err != nil {
		return "", err
	}
	if err := g.keepFiltered(ctx, head, env); err != nil {
		return "", err
	}
	return g.start(ctx, Command{Args: []string{"write-tree"}, Env: env})
}

// merging lists the files that exist in the git directory while a merge, a
// cherry-pick or a revert is unfinished. A commit finishes it and removes them.
var merging = []string{"MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG"}

// commitTree commits a tree on top of the clone's position, and moves the
// clone's HEAD to it.
func (g *ownGit) commitTree(ctx context.Context, at position, tree, message string) (commit string, err error) {
	args := []string{"commit-tree"}
	if at.head != "" {
		args = append(args, "-p", at.head)
	}
	if err := gitcmd.Link(filepath.Join(g.gitDir, "MERGE_HEAD"), filepath.Join(g.r.Own, "MERGE_HEAD")); err != nil {
		return "", err
	}
	if other, err := g.commit(ctx, "MERGE_HEAD"); err != nil {
		return "", err
	} else if other != "" && at.head != "" {
		args = append(args, "-p", other)
	}
	if commit, err = g.start(ctx, Command{Args: append(args, tree), Stdin: message}); err != nil {
		return "", err
	}
	head := commit
	if at.branch != "" {
		head = "ref: refs/heads/" + at.branch
		err := g.r.unlocked(ctx, func() error {
			_, err := g.run(ctx, "update-ref", "refs/heads/"+at.branch, commit)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	if at.branch == "" || at.broken {
		if err := g.setCloneHead(ctx, head); err != nil {
			return "", err
		}
	}
	return commit, g.endMerge(ctx)
}

// endMerge removes the files of an unfinished merge.
func (g *ownGit) endMerge(ctx context.Context) error {
	rm := []string{"rm", "-f", "--"}
	for _, name := range merging {
		rm = append(rm, filepath.Join(g.gitDir, name))
	}
	_, err := g.r.command(ctx, quickLimit, rm...)
	return err
}

// bundle writes a git bundle, whose only ref is HEAD, to file. It contains the commits of
// head that the remote lacks. The file belongs to the user. bundle reports whether there were
// any commits to write.
func (g *ownGit) bundle(ctx context.Context, head, file string) (bool, error) {
	if head == "" || head == g.base {
		return false, nil
	}
	if err := g.setHead(head); err != nil {
		return false, err
	}
	args := []string{"bundle", "create", "--quiet", file, "HEAD"}
	if g.base != "" {
		args = append(args, "^"+g.base)
	}
	_, err := g.run(ctx, args...)
	return err == nil, err
}
