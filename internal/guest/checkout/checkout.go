// Package checkout does the git operations that the agent does not do itself:
// it clones, creates the branch, commits, pushes and diffs, by running git in
// the machine as the agent's user.
//
// git reaches every remote through the git gateway only: [Config] rewrites the
// URLs and has the run's credential. The package does not start processes
// itself: the owner of the machine's processes provides a [Runner]. It makes no
// permission decisions; the gateway does.
package checkout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"aloft/internal/atomicfile"
)

// Command is a command to run in the machine as the agent's user.
type Command struct {
	Args   []string // the program's name, then its arguments
	Dir    string   // "" is the root folder
	Env    []string // added to the user's environment
	Hooks  bool     // include the agent's environment variables, because it runs the project's hooks
	Clean  bool     // without the user's variables that influence git
	Stdin  string
	Stdout io.Writer // nil discards the output; an error of Write kills the command
	Stderr io.Writer
}

// A Runner runs a command and waits for it. It returns the exit status, or 128+n if
// signal n killed the command. The error says that the command could not be started, or
// is ctx's cause; in that case the command and its process group have been killed.
type Runner func(ctx context.Context, c Command) (exit int, err error)

// Repository is the clone that the agent works in. Its methods must not be
// called concurrently.
type Repository struct {
	Path   string // absolute
	URL    string // the public URL
	Own    string // folder for our own git directory; the agent has no access to it
	System string // file with the text of [Config]; "" for none
	Run    Runner
	Record string // records what was checked out; the agent has no access to it
	Secret string // credential, redacted from all of git's output
	// Gateway is the base URL of the git gateway, as in [Config]. It is
	// replaced in git's messages by the remote's URL.
	Gateway   string
	HookLimit time.Duration // timeout of the project's hooks; 5 minutes if 0
	// Around wraps the command lines that run the project's hooks and other
	// programs that git's configuration names, in a sandbox. If it is nil, they
	// run without one.
	Around func(argv []string) ([]string, error)
	// Claim gives an empty folder to the agent's user.
	Claim func(path string) error
}

// Spec says what to check out.
type Spec struct {
	URL    string // the public URL
	Ref    string // branch, tag or commit; "" is the default branch
	Branch string // branch to work on, created at Ref; "" or Ref works on Ref itself
	Resume bool   // if Branch exists on the remote, continue it
	Owner  string // id of the agent that the checkout is for
}

// State describes a checkout.
type State struct {
	Path   string `json:"path"`
	Base   string `json:"base"`   // commit checked out first; "" in an empty repository
	Branch string `json:"branch"` // "" if HEAD is detached
	Owner  string `json:"owner,omitempty"`
	// Whole says that the checkout was completed.
	Whole bool `json:"whole"`
	// Modules says that the submodules are not checked out yet.
	Modules bool `json:"modules,omitempty"`
}

// Timeouts of git commands.
const (
	quickLimit = time.Minute
	localLimit = 10 * time.Minute
)

// Find returns the existing checkout at Path. It returns false if there is
// nothing, or only an incomplete clone.
func (r *Repository) Find(ctx context.Context) (State, bool, error) {
	state, err := r.recall()
	if err != nil {
		return State{}, false, err
	}
	if state.Path == r.Path && !state.Whole {
		return State{}, false, nil
	}
	switch _, err := os.Lstat(filepath.Join(r.Path, ".git")); {
	case errors.Is(err, fs.ErrNotExist):
		return State{}, false, nil
	case err != nil:
		return State{}, false, fmt.Errorf("look for a clone: %w", err)
	}
	if state.Path != r.Path {
		// Adopt a clone that the image contains.
		state = State{Path: r.Path, Whole: true}
		if state.Base, err = r.head(ctx); err != nil {
			return State{}, false, err
		}
		if err := r.remember(state); err != nil {
			return State{}, false, err
		}
	}
	git, err := r.prepareOwn()
	if err != nil {
		return State{}, false, err
	}
	at, err := git.position(ctx)
	if err != nil {
		return State{}, false, err
	}
	state.Branch = at.branch
	return state, true, nil
}

// Make clones the repository and checks the branch out. It first removes the
// files of an unfinished Make, but no others. progress is called with progress
// messages. If git refuses, the error is a [*Failure].
func (r *Repository) Make(ctx context.Context, spec Spec, progress func(string)) (State, error) {
	if err := spec.check(); err != nil {
		return State{}, err
	}
	if err := r.prepare(ctx); err != nil {
		return State{}, err
	}
	if err := r.clone(ctx, spec, progress); err != nil {
		return State{}, err
	}
	progress("checking out")
	state, err := r.branch(ctx, spec)
	if err != nil {
		return State{}, err
	}
	return state, r.remember(state)
}

func (s Spec) check() error {
	if s.URL == "" || strings.HasPrefix(s.URL, "-") || strings.ContainsFunc(s.URL, isControl) {
		return &Failure{CodeRepoNotFound, fmt.Sprintf("repository URL %q is not one", s.URL)}
	}
	for _, name := range []string{s.Ref, s.Branch} {
		if strings.HasPrefix(name, "-") || strings.ContainsFunc(name, isControl) {
			return &Failure{CodeRefNotFound, fmt.Sprintf("%q cannot be the name of a ref", name)}
		}
	}
	return nil
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

// prepare creates an empty folder at Path, owned by the user.
func (r *Repository) prepare(ctx context.Context) error {
	state, err := r.recall()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.Path, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", r.Path, err)
	}
	if err := r.Claim(r.Path); err != nil {
		return fmt.Errorf("claim %s: %w", r.Path, err)
	}
	if state.Path == r.Path && !state.Whole {
		// Delete as the user, so that symbolic links cannot make root delete
		// other files.
		if _, err := r.command(ctx, localLimit, "find", r.Path, "-mindepth", "1", "-delete"); err != nil {
			return fmt.Errorf("remove half a clone: %w", err)
		}
	}
	return r.remember(State{Path: r.Path})
}

var hexName = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// clone fetches everything and checks nothing out. It fails before fetching if
// the branch or tag does not exist.
func (r *Repository) clone(ctx context.Context, spec Spec, progress func(string)) error {
	args := []string{"clone", "--progress", "--no-checkout"}
	if spec.Ref != "" && !hexName.MatchString(spec.Ref) {
		args = append(args, "--branch", plain(spec.Ref))
	}
	args = append(args, "--", spec.URL, r.Path)
	words := newTail(progress)
	c := r.gitCommand(args...)
	c.Dir, c.Stdout, c.Stderr = "", io.Discard, words
	exit, err := r.Run(ctx, c)
	if err != nil {
		return fmt.Errorf("git clone: %w", err)
	}
	if exit != 0 {
		return r.failure(words)
	}
	return nil
}

// plain returns the name of a branch or tag without refs/heads/ or refs/tags/.
func plain(ref string) string {
	for _, space := range []string{"refs/heads/", "refs/tags/"} {
		if name, ok := strings.CutPrefix(ref, space); ok {
			return name
		}
	}
	return ref
}

// branch checks out the requested branch in a new clone.
func (r *Repository) branch(ctx context.Context, spec Spec) (State, error) {
	state := State{Path: r.Path, Branch: spec.Branch, Owner: spec.Owner, Whole: true, Modules: true}
	start, name, err := r.start(ctx, spec.Ref)
	if err != nil {
		return State{}, err
	}
	if state.Branch == "" || state.Branch == plain(spec.Ref) {
		state.Branch = name
	}
	if start == "" { // the repository has no commits
		if state.Branch != "" {
			_, err = r.git(ctx, quickLimit, "symbolic-ref", "HEAD", "refs/heads/"+state.Branch)
		}
		return state, err
	}
	state.Base = start
	if state.Branch == "" {
		_, err = r.git(ctx, localLimit, "checkout", "--quiet", "--detach", start)
		return state, err
	}
	tracked := "--no-track"
	remote, err := r.commit(ctx, "refs/remotes/origin/"+state.Branch)
	if err != nil {
		return State{}, err
	}
	if remote != "" {
		if state.Branch != name && !spec.Resume {
			return State{}, branchTaken(state.Branch, remote)
		}
		if fork, err := r.git(ctx, quickLimit, "merge-base", start, remote); err == nil {
			state.Base = strings.TrimSpace(fork)
		}
		tracked, start = "--track", "refs/remotes/origin/"+state.Branch
	}
	_, err = r.git(ctx, localLimit, "checkout", "--quiet", tracked, "-B", state.Branch, start)
	return state, err
}

// start finds the commit that ref names, and the branch if ref is one. For the
// default branch of a repository without commits the commit is empty, and name
// is the future branch.
func (r *Repository) start(ctx context.Context, ref string) (commit, name string, err error) {
	if ref == "" {
		if commit, err = r.head(ctx); err != nil {
			return "", "", err
		}
		name, err = r.current(ctx)
		return commit, name, err
	}
	return find(ctx, ref, r.commit, func() error {
		_, err := r.git(ctx, localLimit, "fetch", "--quiet", "origin", ref)
		return err
	})
}

// find finds the commit that ref names, and the branch if ref is one. look
// looks a name up in the clone; fetch fetches ref from the remote.
func find(ctx context.Context, ref string, look func(context.Context, string) (string, error), fetch func() error) (commit, name string, err error) {
	if !strings.HasPrefix(ref, "refs/tags/") {
		if commit, err = look(ctx, "refs/remotes/origin/"+plain(ref)); commit != "" || err != nil {
			return commit, plain(ref), err
		}
	}
	if commit, err = look(ctx, "refs/tags/"+plain(ref)); commit != "" || err != nil {
		return commit, "", err
	}
	if hexName.MatchString(ref) {
		if commit, err = look(ctx, ref); commit != "" || err != nil {
			return commit, "", err
		}
		// The remote may provide a commit that is on no branch.
		if err := fetch(); err == nil {
			if commit, err = look(ctx, ref); commit != "" || err != nil {
				return commit, "", err
			}
		}
	}
	return "", "", &Failure{CodeRefNotFound, fmt.Sprintf("no branch, tag or commit %q in the repository", ref)}
}

// commit returns the commit that a name refers to; "" if there is none.
func (r *Repository) commit(ctx context.Context, name string) (string, error) {
	var out bytes.Buffer
	c := r.gitCommand("rev-parse", "--quiet", "--verify", "--end-of-options", name+"^{commit}")
	c.Stdout = &out
	exit, err := r.limited(ctx, quickLimit, c)
	if err != nil || exit != 0 {
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

func (r *Repository) head(ctx context.Context) (string, error) { return r.commit(ctx, "HEAD") }

// current returns the current branch, even if it has no commits; "" if HEAD is
// detached.
func (r *Repository) current(ctx context.Context) (string, error) {
	var out bytes.Buffer
	c := r.gitCommand("symbolic-ref", "--quiet", "--short", "HEAD")
	c.Stdout = &out
	exit, err := r.limited(ctx, quickLimit, c)
	if err != nil || exit != 0 {
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

func (r *Repository) recall() (State, error) {
	data, err := os.ReadFile(r.Record)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("read what was checked out: %w", err)
	}
	var s State
	if err := json.Unmarshal(data, &s); err != nil {
		return State{}, fmt.Errorf("%s: %w", r.Record, err)
	}
	return s, nil
}

// remember writes the record atomically.
func (r *Repository) remember(s State) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(r.Record, data, 0o644); err != nil {
		return fmt.Errorf("record the checkout: %w", err)
	}
	return nil
}
