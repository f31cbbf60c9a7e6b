// Package checkout does the work on the repository that is not the agent's
// own: it clones, makes the branch, commits, pushes and tells the difference,
// by running git in the machine as the agent's user.
//
// git reaches every remote through the gateway only: [Config] rewrites the
// URLs and holds the run's credential. The package does not start processes
// itself: whoever owns the machine's processes gives it a [Runner]. It decides
// nothing about who may do what; the gateway does.
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

// Command is one command to be run in the machine as the agent's user.
type Command struct {
	Args   []string // the program's name, then its arguments
	Dir    string   // "" is the root folder
	Env    []string // over the user's
	Hooks  bool     // with the variables of the agent's commands: it runs the project's hooks
	Clean  bool     // without those variables of the user's that git heeds
	Stdin  string
	Stdout io.Writer // nil discards; an error of it ends the command
	Stderr io.Writer
}

// A Runner runs a command to its end and returns its exit status, 128+n where
// signal n ended it. The error is of starting it, or ctx's cause: the command
// and its process group are dead then.
type Runner func(ctx context.Context, c Command) (exit int, err error)

// Repository is the clone that the agent works in. Its methods are for one
// caller at a time.
type Repository struct {
	Path   string // absolute
	URL    string // as the repository's users write it
	Own    string // folder for a git directory of our own; outside the agent's reach
	System string // file with what [Config] says; "" is none
	Run    Runner
	Record string // file that remembers what was checked out; outside the agent's reach
	Secret string // credential, cut out of all that git says
	// Gateway is where git finds all remotes, as in [Config]: what git says of
	// it is told as of the remote.
	Gateway   string
	HookLimit time.Duration // of the project's hooks; 5 minutes if 0
	// Claim makes an empty folder the user's.
	Claim func(path string) error
}

// Spec says what is to be checked out.
type Spec struct {
	URL    string // as the repository's users write it
	Ref    string // branch, tag or commit; "" is the default branch
	Branch string // to work on, made at Ref; "" or Ref works on Ref itself
	Resume bool   // Branch may be on the remote, and is then continued
	Owner  string // whom it is for
}

// State is what is checked out.
type State struct {
	Path   string `json:"path"`
	Base   string `json:"base"`   // commit checked out first; "" in an empty repository
	Branch string `json:"branch"` // "" where HEAD is detached
	Owner  string `json:"owner,omitempty"`
	// Whole says that the checkout came to its end.
	Whole bool `json:"whole"`
	// Modules says that its submodules have still to be checked out.
	Modules bool `json:"modules,omitempty"`
}

// Limits of git commands that wait for nobody.
const (
	quickLimit = time.Minute
	localLimit = 10 * time.Minute
)

// Find returns what an earlier Make, or somebody else, left at Path; false
// where there is nothing, or only half a clone.
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
		// Not of our making: an image may bring its clone.
		state = State{Path: r.Path, Whole: true}
		if state.Base, err = r.head(ctx); err != nil {
			return State{}, false, err
		}
		if err := r.remember(state); err != nil {
			return State{}, false, err
		}
	}
	git, err := r.own()
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

// Make clones the repository and checks the branch out. What an unfinished
// Make left is removed first; what is not of Make is not. progress hears how
// far it is, now and then. Errors are [*Failure] where git refused.
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

// prepare makes an empty folder of the user's at Path.
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
		// By the user, so that no link in it leads the machine's root astray.
		if _, err := r.command(ctx, localLimit, "find", r.Path, "-mindepth", "1", "-delete"); err != nil {
			return fmt.Errorf("remove half a clone: %w", err)
		}
	}
	return r.remember(State{Path: r.Path})
}

var hexName = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// clone fetches everything and checks nothing out. A branch or tag that is not
// there is refused before anything is fetched.
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

// plain is a branch's or tag's name without its namespace.
func plain(ref string) string {
	for _, space := range []string{"refs/heads/", "refs/tags/"} {
		if name, ok := strings.CutPrefix(ref, space); ok {
			return name
		}
	}
	return ref
}

// branch checks out what spec asks of a fresh clone.
func (r *Repository) branch(ctx context.Context, spec Spec) (State, error) {
	state := State{Path: r.Path, Branch: spec.Branch, Owner: spec.Owner, Whole: true, Modules: true}
	start, name, err := r.start(ctx, spec.Ref)
	if err != nil {
		return State{}, err
	}
	if state.Branch == "" || state.Branch == plain(spec.Ref) {
		state.Branch = name
	}
	if start == "" { // no commit at all
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

// start finds the commit that ref names, and the branch if it is one. Both are
// empty for the default branch of a repository without commits, where name is
// what the branch will be.
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

// find finds the commit that ref names, and the branch if it is one, by look,
// which looks names up in the clone. fetch asks the remote for ref.
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
		// A commit that no branch holds may still be given out when asked for.
		if err := fetch(); err == nil {
			if commit, err = look(ctx, ref); commit != "" || err != nil {
				return commit, "", err
			}
		}
	}
	return "", "", &Failure{CodeRefNotFound, fmt.Sprintf("no branch, tag or commit %q in the repository", ref)}
}

// commit is the commit that a name stands for; "" where there is none.
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

// current is the branch that is checked out, born or not; "" where HEAD is
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

// remember writes the record whole or not at all.
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
