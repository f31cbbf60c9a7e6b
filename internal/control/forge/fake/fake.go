// Package fake is an in-memory forge for tests.
package fake

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// Login is the user whose token the callers use.
const Login = "aloft-bot"

// Forge is a host and its repositories. It implements all of a forge's optional
// interfaces. Its methods are safe for concurrent use.
type Forge struct {
	Host    string
	People  []string // users who can be asked to review; nil means everybody
	Writers []string // users who may write, apart from Login

	mu    sync.Mutex
	repos map[string]*repo // by path
	fails []error
	calls []string
	made  int // number of commits created
}

type repo struct {
	base     string
	branches map[string]string // commits by branch name
	pulls    []*pull
	checks   map[string][]forge.Check // by commit
	logs     map[string]string        // by LogID
	issues   []*issue
}

type pull struct {
	forge.PullRequest
	comments  []forge.Comment
	threads   []forge.Thread
	reviews   []forge.Review
	reviewers []string
	made      int               // number of comments, threads and reviews
	diff      string            // as git diff prints it; "" is defaultDiff
	earlier   []string          // earlier commits of the head
	groups    map[string]string // ID of the review of a thread
}

var (
	_ forge.Forge      = (*Forge)(nil)
	_ forge.Discussion = (*Forge)(nil)
	_ forge.Reviewing  = (*Forge)(nil)
	_ forge.Reviewed   = (*Forge)(nil)
	_ forge.Posting    = (*Forge)(nil)
	_ forge.Logged     = (*Forge)(nil)
	_ forge.Access     = (*Forge)(nil)
	_ forge.Listing    = (*Forge)(nil)
)

// New returns a host without repositories.
func New(host string) *Forge { return &Forge{Host: host, repos: map[string]*repo{}} }

// Add creates a repository with one commit on its default branch.
func (f *Forge) Add(path, defaultBranch string) forge.Repo {
	r := forge.Repo{Host: f.Host, Path: path}
	f.mu.Lock()
	f.repos[path] = &repo{base: defaultBranch, branches: map[string]string{}, checks: map[string][]forge.Check{}, logs: map[string]string{}}
	f.mu.Unlock()
	f.Push(r, defaultBranch)
	return r
}

// Repositories implements [forge.Listing].
func (f *Forge) Repositories(context.Context, forge.Repo) (all []forge.Repo, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(f.repos)) {
		all = append(all, forge.Repo{Host: f.Host, Path: path})
	}
	return all, nil
}

// Push adds a commit to a branch, creates the branch if needed, and returns the
// commit's id.
func (f *Forge) Push(r forge.Repo, branch string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made++
	sum := sha1.Sum(fmt.Appendf(nil, "%s %s %d", r, branch, f.made))
	return f.setHead(r, branch, hex.EncodeToString(sum[:]))
}

// SetHead sets the commit of a branch, as after a push that a test did with
// git.
func (f *Forge) SetHead(r forge.Repo, branch, commit string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setHead(r, branch, commit)
}

func (f *Forge) setHead(r forge.Repo, branch, commit string) string {
	in := f.repos[r.Path]
	in.branches[branch] = commit
	for _, p := range in.pulls {
		if p.Head == branch && p.State == forge.Open {
			p.earlier = append(p.earlier, p.HeadCommit)
			p.HeadCommit = commit
		}
	}
	return commit
}

// SetCheck sets a check of a commit, and replaces one with the same name.
func (f *Forge) SetCheck(r forge.Repo, commit string, c forge.Check) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := f.repos[r.Path]
	in.checks[commit] = append(slices.DeleteFunc(in.checks[commit], func(o forge.Check) bool { return o.Name == c.Name }), c)
	slices.SortFunc(in.checks[commit], func(a, b forge.Check) int { return strings.Compare(a.Name, b.Name) })
}

// Say adds a comment by another user.
func (f *Forge) Say(r forge.Repo, number int, author, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p, err := f.pull(r, number); err == nil {
		p.say(author, body)
	}
}

// Fail makes the next calls fail, each with the next of the errors.
func (f *Forge) Fail(errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = append(f.fails, errs...)
}

// Calls returns the names of the methods called since the last call of Calls.
func (f *Forge) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

// PullRequests returns all pull requests of a repository, oldest first.
func (f *Forge) PullRequests(r forge.Repo) []forge.PullRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []forge.PullRequest
	if in := f.repos[r.Path]; in != nil {
		for _, p := range in.pulls {
			out = append(out, p.PullRequest)
		}
	}
	return out
}

// Reviewers returns the users who were asked to review.
func (f *Forge) Reviewers(r forge.Repo, number int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return nil
	}
	return slices.Clone(p.reviewers)
}

// enter starts a call. If it succeeds, it returns with the lock held.
func (f *Forge) enter(ctx context.Context, call string, r forge.Repo) (*repo, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f.mu.Lock()
	f.calls = append(f.calls, call)
	if len(f.fails) > 0 {
		err := f.fails[0]
		f.fails = f.fails[1:]
		f.mu.Unlock()
		return nil, err
	}
	if in := f.repos[r.Path]; in != nil && r.Host == f.Host {
		return in, nil
	}
	f.mu.Unlock()
	return nil, missing(r)
}

func (f *Forge) pull(r forge.Repo, number int) (*pull, error) {
	if in := f.repos[r.Path]; in != nil && number > 0 && number <= len(in.pulls) {
		return in.pulls[number-1], nil
	}
	return nil, missing(r)
}

func missing(r forge.Repo) error {
	return fault.NotFound("%s has no such thing in %s", r.Host, r.Path).Named(forge.CodeNotFound)
}

// Open implements [forge.Forge].
func (f *Forge) Open(ctx context.Context, n forge.NewPullRequest) (forge.PullRequest, error) {
	if err := n.Check(); err != nil {
		return forge.PullRequest{}, err
	}
	in, err := f.enter(ctx, "Open", n.Repo)
	if err != nil {
		return forge.PullRequest{}, err
	}
	defer f.mu.Unlock()
	for _, p := range in.pulls {
		if p.Head == n.Head && p.Base == n.Base && p.State == forge.Open {
			return p.PullRequest, nil
		}
	}
	head, base := in.branches[n.Head], in.branches[n.Base]
	if head == "" || base == "" {
		return forge.PullRequest{}, fault.Invalid("one of the branches %s and %s is not there", n.Head, n.Base).Named(forge.CodeRefused)
	}
	if head == base {
		return forge.PullRequest{}, fault.Invalid("no commits between %s and %s", n.Base, n.Head).Named(forge.CodeRefused)
	}
	number := len(in.pulls) + 1
	p := &pull{PullRequest: forge.PullRequest{
		Repo: n.Repo, HeadRepo: n.Repo, Number: number, URL: fmt.Sprintf("https://%s/pull/%d", n.Repo, number),
		Title: forge.Line(n.Title, 255), Body: forge.Cut(n.Body, 65536), Author: Login,
		Head: n.Head, HeadCommit: head, Base: n.Base, State: forge.Open, Draft: n.Draft,
	}}
	in.pulls = append(in.pulls, p)
	return p.PullRequest, nil
}

// Update implements [forge.Forge].
func (f *Forge) Update(ctx context.Context, r forge.Repo, number int, c forge.Change) (forge.PullRequest, error) {
	if err := c.Check(); err != nil {
		return forge.PullRequest{}, err
	}
	if _, err := f.enter(ctx, "Update", r); err != nil {
		return forge.PullRequest{}, err
	}
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return forge.PullRequest{}, err
	}
	if c.State != nil && *c.State != p.State && p.State == forge.Merged {
		return forge.PullRequest{}, fault.Conflict("it is merged").Named(forge.CodeConflict)
	}
	if c.Title != nil {
		p.Title = forge.Line(*c.Title, 255)
	}
	if c.Body != nil {
		p.Body = forge.Cut(*c.Body, 65536)
	}
	if c.State != nil {
		p.State = *c.State
	}
	return p.PullRequest, nil
}

// Get implements [forge.Forge].
func (f *Forge) Get(ctx context.Context, r forge.Repo, number int) (forge.PullRequest, error) {
	if _, err := f.enter(ctx, "Get", r); err != nil {
		return forge.PullRequest{}, err
	}
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return forge.PullRequest{}, err
	}
	return p.PullRequest, nil
}

// Find implements [forge.Forge].
func (f *Forge) Find(ctx context.Context, r forge.Repo, head string) ([]forge.PullRequest, error) {
	in, err := f.enter(ctx, "Find", r)
	if err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	var out []forge.PullRequest
	for _, p := range slices.Backward(in.pulls) {
		if p.Head == head && len(out) < forge.MaxFound {
			out = append(out, p.PullRequest)
		}
	}
	return out, nil
}

// DefaultBranch implements [forge.Forge].
func (f *Forge) DefaultBranch(ctx context.Context, r forge.Repo) (string, error) {
	in, err := f.enter(ctx, "DefaultBranch", r)
	if err != nil {
		return "", err
	}
	defer f.mu.Unlock()
	return in.base, nil
}

// Checks implements [forge.Forge].
func (f *Forge) Checks(ctx context.Context, r forge.Repo, commit string) ([]forge.Check, error) {
	in, err := f.enter(ctx, "Checks", r)
	if err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	return slices.Clone(in.checks[commit]), nil
}

// Comments implements [forge.Discussion].
func (f *Forge) Comments(ctx context.Context, r forge.Repo, number int) ([]forge.Comment, error) {
	if _, err := f.enter(ctx, "Comments", r); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return nil, err
	}
	return forge.Newest(p.all()), nil
}

// Comment implements [forge.Discussion].
func (f *Forge) Comment(ctx context.Context, r forge.Repo, number int, body string) (forge.Comment, error) {
	if err := forge.CheckComment(body); err != nil {
		return forge.Comment{}, err
	}
	if _, err := f.enter(ctx, "Comment", r); err != nil {
		return forge.Comment{}, err
	}
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return forge.Comment{}, err
	}
	return p.say(Login, body), nil
}

func (p *pull) say(author, body string) forge.Comment {
	c := p.comment(author, body)
	p.comments = append(p.comments, c)
	return c
}

// RequestReview implements [forge.Reviewing].
func (f *Forge) RequestReview(ctx context.Context, r forge.Repo, number int, logins []string) error {
	if _, err := f.enter(ctx, "RequestReview", r); err != nil {
		return err
	}
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	if err != nil {
		return err
	}
	for _, l := range logins {
		if f.People != nil && !slices.Contains(f.People, l) {
			return fault.Invalid("nobody is called %s", l).Named(forge.CodeRefused)
		}
	}
	for _, l := range logins {
		if !slices.Contains(p.reviewers, l) {
			p.reviewers = append(p.reviewers, l)
		}
	}
	return nil
}

// Merge merges a pull request as a person does, if its head is at headCommit.
func (f *Forge) Merge(ctx context.Context, r forge.Repo, number int, headCommit string) (forge.PullRequest, error) {
	in, err := f.enter(ctx, "Merge", r)
	if err != nil {
		return forge.PullRequest{}, err
	}
	defer f.mu.Unlock()
	p, err := f.pull(r, number)
	switch {
	case err != nil:
		return forge.PullRequest{}, err
	case p.HeadCommit != headCommit:
		return forge.PullRequest{}, fault.Conflict("%s is at another commit", p.Head).Named(forge.CodeConflict)
	case p.State == forge.Merged:
		return p.PullRequest, nil
	case p.State != forge.Open || p.Draft:
		return forge.PullRequest{}, fault.Conflict("it is closed, or a draft").Named(forge.CodeConflict)
	}
	p.State = forge.Merged
	f.made++
	sum := sha1.Sum(fmt.Appendf(nil, "%s merge %d", r, f.made))
	in.branches[p.Base] = hex.EncodeToString(sum[:])
	return p.PullRequest, nil
}
