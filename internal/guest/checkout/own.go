package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"aloft/internal/gitcmd"
)

// ownGit runs git on the clone by a git directory of our own. Its refs and
// objects are the clone's; its configuration is not: the agent may have damaged
// that, or named programs in it. It is for one operation.
type ownGit struct {
	r         *Repository
	gitDir    string // the clone's: HEAD and the index are there
	commonDir string // the clone's: refs and objects are there
	at        gitcmd.StandIn
	git       gitcmd.Git
	base      string   // commit that was checked out first; "" in an empty repository
	branch    string   // that was checked out first; "" where HEAD was detached
	filtered  []string // files that the last stage left as they are in HEAD; see keepFiltered
}

// cloneHead is the name by which our git knows the clone's HEAD. Our own HEAD has
// to be a file of ours.
const cloneHead = "CLONE_HEAD"

// own readies our git directory, which belongs to root: the agent cannot change it.
func (r *Repository) own() (*ownGit, error) {
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
			return nil, &Failure{CodeInternal, fmt.Sprintf("%q cannot be used in git's configuration", value)}
		}
	}
	g.at = gitcmd.StandIn{Dir: r.Own, Common: g.commonDir, SHA256: len(g.base) == 64, Config: "[core]\n" +
		"\texcludesFile = " + quote(filepath.Join(g.commonDir, "info/exclude")) + "\n" +
		"[remote \"origin\"]\n\turl = " + quote(g.r.URL) + // git-lfs looks at refs/remotes/origin for what it need not upload
		"\n[diff]\n\tignoreSubmodules = dirty\n" +
		"[lfs]\n\trepositoryformatversion = 0\n\tstorage = " + quote(filepath.Join(g.commonDir, "lfs")) + "\n"}
	if err := g.at.Lay(); err != nil {
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

// plainGit is git with the machine's configuration and nobody else's, but for
// the repository that it works on.
func (r *Repository) plainGit() gitcmd.Git { return gitcmd.Git{System: r.System} }

// setHead has our HEAD be a commit, or a symbolic ref.
func (g *ownGit) setHead(to string) error { return g.at.SetHead(to) }

// setCloneHead has the clone's HEAD be a commit, or a symbolic ref.
func (g *ownGit) setCloneHead(ctx context.Context, to string) error {
	const script = `printf '%s\n' "$1" > "$2.aloft" && mv -f -- "$2.aloft" "$2"`
	_, err := g.r.command(ctx, quickLimit, "sh", "-c", script, "sh", to, filepath.Join(g.gitDir, "HEAD"))
	return err
}

// run runs git and returns what it printed. An exit other than zero is a
// [*Failure].
func (g *ownGit) run(ctx context.Context, args ...string) (string, error) {
	return g.start(ctx, Command{Args: args})
}

// start runs git with c's arguments, input and variables, for at most localLimit.
func (g *ownGit) start(ctx context.Context, c Command) (string, error) {
	return g.startUpTo(ctx, maxOutput, c)
}

// startUpTo is start for output of up to limit bytes.
func (g *ownGit) startUpTo(ctx context.Context, limit int, c Command) (string, error) {
	out, words := &bounded{limit: limit}, newTail(nil)
	c.Args, c.Env = g.git.Args(c.Args...), append(g.git.Environ(), c.Env...)
	c.Dir, c.Clean, c.Stdout, c.Stderr = g.r.Path, true, out, words
	exit, err := g.r.limited(ctx, localLimit, c)
	if err != nil {
		return "", err
	}
	if exit != 0 {
		return "", g.r.failure(words)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// commit is the commit that a name stands for; "" where there is none.
func (g *ownGit) commit(ctx context.Context, name string) (string, error) {
	id, err := g.run(ctx, "rev-parse", "--quiet", "--verify", "--end-of-options", name+"^{commit}")
	if _, refused := errors.AsType[*Failure](err); refused {
		return "", nil
	}
	return id, err
}

// position is where the clone stands.
type position struct {
	head   string // commit; "" where there is none
	branch string // "" where HEAD is detached
	broken bool   // the clone's HEAD is missing or damaged
}

// position finds where the clone stands. Where its HEAD, or what it names, is lost
// it stands on the branch that was checked out first.
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
		return at, nil // a branch that the agent began without a commit
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

// restore fetches what the repository's server has into a clone whose objects are
// lost.
func (g *ownGit) restore(ctx context.Context) error {
	if _, err := g.r.command(ctx, quickLimit, "mkdir", "-p", filepath.Join(g.commonDir, "objects"), filepath.Join(g.commonDir, "refs")); err != nil {
		return err
	}
	_, err := g.run(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--end-of-options", g.r.URL, "+refs/heads/*:refs/remotes/origin/*")
	return err
}

// stage puts the working tree into an index, "" being the clone's, and returns
// the tree. An index that is damaged or missing is made anew.
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

// merging are the files of a clone in the middle of a merge, a cherry-pick or a
// revert, which a commit ends.
var merging = []string{"MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG"}

// commitTree commits a tree onto where the clone stands, and moves the clone there.
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

// endMerge removes what a merge that is under way has noted.
func (g *ownGit) endMerge(ctx context.Context) error {
	rm := []string{"rm", "-f", "--"}
	for _, name := range merging {
		rm = append(rm, filepath.Join(g.gitDir, name))
	}
	_, err := g.r.command(ctx, quickLimit, rm...)
	return err
}

// bundle writes what the remote does not have of head into a file of the user's:
// a git bundle whose one ref is HEAD. It reports whether there is anything to keep.
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
