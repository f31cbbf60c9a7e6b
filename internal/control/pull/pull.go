// Package pull opens pull requests for the branches that agents have pushed: it
// finds the forge of a repository, composes title and body, opens or updates
// the pull request, and queries its state. A request is journaled before it is
// sent and its result afterwards. Forges return the existing pull request to a
// repeated request, so no crash opens a second one.
//
// An agent cannot choose the branches: the head is the agent's own branch from
// the journal. The base is the branch that the agent started from, unless its
// user names another.
package pull

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/gateway"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/redact"
)

// Config holds a Desk's dependencies. All fields but App, Shown, Privacy,
// Reviewers, Mark, FailOn, Poll and Logger are required.
type Config struct {
	Forges forge.Set
	// App returns the forge of a repository as accessed by the configured GitHub
	// App, or nil if there is none.
	App     func(r forge.Repo) forge.Forge
	Git     Git
	Journal store.Journal
	Link    func(agentID string) string // address of the agent in the dashboard
	// Secrets are values, by name, that must not appear in a pull request's text.
	Secrets func(agentID string) map[string]string
	// Shown reports whether the agent's messages in a run may be shown outside;
	// nil means always.
	Shown func(ctx context.Context, a agent.Agent, r agent.Run) (bool, error)
	// Privacy reports whether a run is in privacy mode, in which pull requests
	// get a general text unless a person writes one; nil means never.
	Privacy func(ctx context.Context, r agent.Run) (bool, error)
	// Reviewers returns the users, by their names on the host, to request reviews
	// from; nil means none.
	Reviewers func(ctx context.Context, a agent.Agent, host string) ([]string, error)
	// Mark returns a key that is derived from words and that others cannot
	// guess, for the marks of reviews; nil means that no reviews are posted.
	Mark func(words ...string) string
	// FailOn is the minimum severity of a finding at which the status of a
	// reviewed commit becomes a failure; "" means never.
	FailOn agent.Severity
	// Artifacts returns the names of the agent's stored artifacts; nil means
	// none.
	Artifacts func(ctx context.Context, agentID string) ([]string, error)
	// Poll is the first interval of [Desk.Wait]; 0 means ten seconds.
	Poll   time.Duration
	Logger *slog.Logger
}

// Git provides access to the agent's repository.
type Git interface {
	Check(ctx context.Context, repoURL, ref string) (gateway.RefInfo, error)
	Log(ctx context.Context, repoURL, base, tip string, most int) ([]gateway.Commit, error)
	Files(ctx context.Context, repoURL, ref string, paths []string) (gateway.Tree, error)
	Contents(ctx context.Context, repoURL string, b gateway.Blob, limit int64) ([]byte, error)
	Change(ctx context.Context, repoURL, base, tip string, max int) (gateway.Change, error)
}

// Fault codes, in addition to those of package forge and [agent.CodeNoChanges].
const (
	codeNotPushed  = "branch_not_pushed"
	codeSameBranch = "same_branch"
	codeClosed     = "pull_request_closed"
	codeFork       = "pull_request_of_fork"
)

// Desk opens and updates pull requests. Its methods are safe for concurrent
// use.
type Desk struct {
	Config
	seen    seen
	writers writers
}

// New returns a desk with the configuration.
func New(c Config) *Desk {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Desk{Config: c}
}

// Can returns nil if a forge is configured for the repository.
func (d *Desk) Can(repoURL string) error {
	_, _, err := d.forge(repoURL)
	return err
}

// CanAsApp returns nil if a GitHub App is configured for the repository.
func (d *Desk) CanAsApp(repoURL string) error {
	_, _, err := d.forgeFor(agent.PullRequestOptions{AsApp: true}, repoURL)
	return err
}

// RepoOf returns the URL for cloning the repository of a pull request: repoURL,
// if it is not "". If the pull request does not belong to repoURL, it returns
// an error.
func (d *Desk) RepoOf(repoURL, prURL string) (string, error) {
	of, _, err := forge.ParsePullRequestURL(prURL)
	if err != nil {
		return "", err
	}
	_, of, err = d.Forges.Find(of)
	if err != nil {
		return "", err
	}
	if repoURL == "" {
		scheme, _, _ := strings.Cut(strings.TrimSpace(prURL), "://")
		return strings.ToLower(scheme) + "://" + of.String(), nil
	}
	_, named, err := d.forge(repoURL)
	if err != nil {
		return "", err
	}
	if !named.Same(of) {
		return "", fault.Invalid("belongs to %s, but url is another repository", of).Hint("omit url")
	}
	return repoURL, nil
}

func (d *Desk) forge(repoURL string) (forge.Forge, forge.Repo, error) {
	r, err := forge.ParseURL(repoURL)
	if err != nil {
		return nil, r, err
	}
	return d.Forges.Find(r)
}

// forgeFor returns the forge that opens pull requests.
func (d *Desk) forgeFor(w agent.PullRequestOptions, repoURL string) (forge.Forge, forge.Repo, error) {
	f, r, err := d.forge(repoURL)
	if err != nil || !w.AsApp {
		return f, r, err
	}
	if d.App != nil {
		if app := d.App(r); app != nil {
			return app, r, nil
		}
	}
	return nil, r, fault.Invalid("no GitHub App is configured for %s", r).Named(forge.CodeNotConfigured).
		Hint("add the App's id and key to git.credentials in the configuration, or omit openAsCursorGithubApp")
}

// Found reads the pull request at an address, for an agent that continues to
// work on it in the given repository.
func (d *Desk) Found(ctx context.Context, repoURL, prURL string) (agent.PullRequest, error) {
	named, number, err := forge.ParsePullRequestURL(prURL)
	if err != nil {
		return agent.PullRequest{}, err
	}
	f, r, err := d.Forges.Find(named)
	if err != nil {
		return agent.PullRequest{}, err
	}
	p, err := f.Get(ctx, r, number)
	if err != nil {
		return agent.PullRequest{}, err
	}
	switch {
	case !p.HeadRepo.Same(p.Repo):
		return agent.PullRequest{}, fault.Invalid("the pull request %s comes from a fork: its branch %s is in another repository", p.URL, p.Head).Named(codeFork).
			Hint("start the agent on that repository: url is %s, startingRef is %s", cmp.Or(p.HeadRepo.String(), "the fork"), p.Head)
	case p.State != forge.Open:
		return agent.PullRequest{}, fault.Conflict("the pull request %s is %s", p.URL, p.State).Named(codeClosed).
			Hint("reopen it, or start the agent on a branch")
	}
	return pullRequestOf(p, repoURL), nil
}

// pullRequestOf returns the journal's form of somebody else's pull request.
func pullRequestOf(p forge.PullRequest, repoURL string) agent.PullRequest {
	return agent.PullRequest{
		RepoURL: repoURL, Branch: p.Head, Base: p.Base, URL: p.URL, Number: int64(p.Number), Title: p.Title, Draft: p.Draft, State: string(p.State),
	}
}

// Options is a request for a pull request; empty fields get defaults.
type Options struct {
	Title, Body, Base string
	Draft             bool
	LastWords         string // the agent's last message, which is the default body
	Person            bool   // whether a person wrote Title and Body, which are then not restricted
}

// Propose returns the request to the forge for the agent's n-th repository,
// whose pushed head is commit. It does not contact the forge. If no pull
// request is possible, the error is a fault that says why.
func (d *Desk) Propose(ctx context.Context, s *agent.State, n int, commit string, opts Options) (agent.PullRequestAsked, error) {
	a, was := s.Agent, s.Checkout(n)
	url := a.Repos[n].URL
	asked := agent.PullRequestAsked{RepoURL: url, Branch: was.Branch, Commit: commit, Draft: opts.Draft}
	if err := d.Can(url); err != nil {
		return asked, err
	}
	if commit == was.BaseCommit && a.PullRequest(url, was.Branch) == nil {
		return asked, fault.Conflict("nothing was changed since %s: there is nothing to merge", short(commit)).Named(agent.CodeNoChanges)
	}
	info, err := d.refs(ctx, url, a.Repos[n].StartingRef)
	if err != nil {
		return asked, err
	}
	if asked.Base, err = base(a, n, was.Branch, info, opts.Base); err != nil {
		return asked, err
	}
	words, err := d.describe(ctx, s, n, commit, info.Branches[asked.Base], opts)
	if err != nil {
		return asked, err
	}
	asked.Title, asked.Body = words.Title, words.Body
	return asked, nil
}

// refs returns the repository's refs. If the starting ref no longer exists, it
// falls back to the default branch.
func (d *Desk) refs(ctx context.Context, url, ref string) (gateway.RefInfo, error) {
	info, err := d.Git.Check(ctx, url, ref)
	if err != nil && ref != "" && fault.Of(err).Code == "ref_not_found" {
		return d.Git.Check(ctx, url, "")
	}
	return info, err
}

// base returns the target branch: in this order, the requested branch, the
// target of the existing pull request, the branch that the agent started from,
// or the default branch.
func base(a agent.Agent, n int, head string, info gateway.RefInfo, asked string) (string, error) {
	if asked != "" {
		if info.Branches[asked] == "" {
			return "", fault.Invalid("the repository has no branch %s", forge.Line(asked, 200)).Named("ref_not_found").At("base").Hint("name a pushed branch, or omit it for the default")
		}
		if asked == head {
			return "", sameBranch(head)
		}
		return asked, nil
	}
	if p := a.PullRequest(a.Repos[n].URL, head); p != nil && p.Base != "" && p.Base != head && info.Branches[p.Base] != "" {
		return p.Base, nil
	}
	for _, b := range []string{info.Branch, info.DefaultBranch} {
		if b != "" && b != head {
			return b, nil
		}
	}
	return "", sameBranch(head)
}

func sameBranch(head string) error {
	return fault.Conflict("the agent works on %s itself: there is nothing to merge it into", head).Named(codeSameBranch).
		Hint("name another base, or start an agent with a branch of its own")
}

// describe returns the title and body of the pull request.
func (d *Desk) describe(ctx context.Context, s *agent.State, n int, commit, base string, opts Options) (Words, error) {
	a := s.Agent
	link := d.Link(a.ID)
	clean := redact.New(d.Secrets(a.ID)).String
	private, err := d.privacy(ctx, s.Run)
	if err != nil {
		return Words{}, err
	}
	begun, err := d.begun(ctx, a)
	if err != nil {
		return Words{}, err
	}
	if begun {
		a.Name = a.ID
	}
	unhooked := s.Unhooked
	if private {
		a.Name, opts.LastWords = a.ID, ""
		if len(unhooked) > 0 { // hooks may have printed a secret
			unhooked = []string{"the agent's page says why"}
		}
		if p := a.PullRequest(a.Repos[n].URL, s.Checkout(n).Branch); !opts.Person && p != nil && p.URL != "" {
			return Words{p.Title, p.Body}, nil // unchanged
		}
		if !opts.Person {
			opts.Title, opts.Body = "", ""
		}
	}
	shown := !private
	if shown && d.Shown != nil {
		if shown, err = d.Shown(ctx, a, s.Run); err != nil {
			return Words{}, err
		}
	}
	checks := checksText(s.Evidence(), shown)
	if shown && d.Artifacts != nil {
		names, err := d.Artifacts(ctx, a.ID)
		if err != nil {
			d.Logger.WarnContext(ctx, "cannot list the artifacts of a pull request", "agent", a.ID, "error", err)
		}
		checks += mediaText(names, link)
	}
	if opts.Body != "" {
		opts.Body += passedOver(unhooked) + checks
	}
	if opts.Title != "" && opts.Body != "" {
		return Words{oneLine(clean(opts.Title)), clean(Sign(opts.Body, a.Name, link))}, nil
	}
	src := Source{Name: a.Name, Link: link, LastWords: opts.LastWords, Unhooked: unhooked, Checks: checks}
	if n := len(s.Asked); n > 0 {
		src.Task = s.Asked[0]
		if begun {
			src.Task = s.Asked[n-1]
		}
	}
	if !shown { // only the commits may be shown, which are pushed anyway
		src.Task, src.LastWords, src.Name = generalTitle, "", a.ID
	}
	if from := cmp.Or(base, s.Checkout(n).BaseCommit); from != "" && !private {
		if src.Commits, err = d.Git.Log(ctx, a.Repos[n].URL, from, commit, 4*maxCommits); err != nil {
			d.Logger.WarnContext(ctx, "cannot read the commits of a pull request", "agent", a.ID, "error", err)
		}
	}
	src.Template = d.template(ctx, a.Repos[n].URL, cmp.Or(base, commit))
	words := Compose(src)
	if opts.Title != "" {
		words.Title = oneLine(opts.Title)
	}
	if opts.Body != "" {
		words.Body = Sign(opts.Body, a.Name, link)
	}
	return Words{clean(words.Title), clean(words.Body)}, nil
}

// template returns the project's pull request template on the base branch, or
// "" if it cannot be read.
func (d *Desk) template(ctx context.Context, url, commit string) string {
	tree, err := d.Git.Files(ctx, url, commit, Templates)
	if err == nil {
		for _, name := range Templates {
			if b, ok := tree.Files[name]; ok && b.Size <= maxTemplate {
				var text []byte
				if text, err = d.Git.Contents(ctx, url, b, maxTemplate); err == nil {
					return strings.ToValidUTF8(string(text), "\uFFFD")
				}
			}
		}
	}
	if err != nil {
		d.Logger.WarnContext(ctx, "cannot read the pull request template of a repository", "error", err)
	}
	return ""
}

// waits are the delays before retries when a host is unreachable or asks to
// wait.
var waits = []time.Duration{time.Second, 4 * time.Second}

// maxWait is the longest wait that a host may ask for. If the host asks for a
// longer wait, Open fails at once.
const maxWait = 15 * time.Second

// Open opens the requested pull request, or updates the existing one. A
// repeated request never opens another pull request. The error is a fault.
func (d *Desk) Open(ctx context.Context, a agent.Agent, asked agent.PullRequestAsked) (agent.PullRequestOpened, error) {
	var opened agent.PullRequestOpened
	err := retry(ctx, waits, func() (err error) {
		opened, err = d.open(ctx, a, asked)
		return err
	})
	if err == nil {
		d.seen.forget(opened.PullRequest.URL)
	}
	return opened, err
}

// retry calls ask until it succeeds, fails permanently, or all waits are used
// up. It gives up at once if a host asks to wait longer than maxWait.
func retry(ctx context.Context, waits []time.Duration, ask func() error) error {
	for try := 0; ; try++ {
		err := ask()
		if err == nil || !forge.Retryable(err) || try == len(waits) {
			return err
		}
		wait := waits[try]
		if asks, ok := forge.RetryAfter(err); ok {
			wait = max(wait, asks)
		}
		if wait > max(waits[try], maxWait) {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func (d *Desk) open(ctx context.Context, a agent.Agent, asked agent.PullRequestAsked) (agent.PullRequestOpened, error) {
	out := agent.PullRequestOpened{By: asked.By}
	f, r, err := d.forgeFor(a.Pull, asked.RepoURL)
	if err != nil {
		return out, err
	}
	all, err := f.Find(ctx, r, asked.Branch)
	if err != nil {
		return out, err
	}
	p, found := pick(all)
	switch {
	case found && p.State == forge.Open:
		if out.PullRequest, err = d.change(ctx, f, r, a, asked, p); err == nil && d.unfinished(a, asked, p) {
			out.PullRequest.ReviewFailure = d.review(ctx, f, r, a, asked, p)
		}
		return out, err
	case found && p.State == forge.Merged && p.HeadCommit == asked.Commit && asked.Commit != "":
		out.PullRequest = pullRequestOf(p, asked.RepoURL)
		return out, nil
	case found && p.State == forge.Closed && asked.By == agent.PullByRun:
		return out, fault.Conflict("%s was closed; no other is opened automatically", p.URL).Named(codeClosed).
			Hint("reopen it at the forge, or open another by hand: `aloft agent pr %s --open`", a.ID)
	}
	p, err = f.Open(ctx, forge.NewPullRequest{Repo: r, Head: asked.Branch, Base: asked.Base, Title: asked.Title, Body: asked.Body, Draft: asked.Draft})
	if err != nil {
		return out, err
	}
	out.Made, out.PullRequest = true, pullRequestOf(p, asked.RepoURL)
	out.PullRequest.Body = p.Body
	out.PullRequest.ReviewFailure = d.review(ctx, f, r, a, asked, p)
	return out, nil
}

// pick returns the open pull request, or else the newest.
func pick(all []forge.PullRequest) (forge.PullRequest, bool) {
	for _, p := range all {
		if p.State == forge.Open {
			return p, true
		}
	}
	if len(all) == 0 {
		return forge.PullRequest{}, false
	}
	return all[0], true
}

// change applies a request to an existing pull request. It keeps text written
// by a person, unless that person or, explicitly, the agent asks for the
// change.
func (d *Desk) change(ctx context.Context, f forge.Forge, r forge.Repo, a agent.Agent, asked agent.PullRequestAsked, p forge.PullRequest) (agent.PullRequest, error) {
	was := a.PullRequest(asked.RepoURL, asked.Branch)
	ours := was != nil && was.Body != "" && isSameBody(was.Body, p.Body) && was.Title == p.Title
	out := pullRequestOf(p, asked.RepoURL)
	if isSameBody(p.Body, asked.Body) {
		out.Body = p.Body
	}
	if !ours && !asked.Force {
		return out, nil
	}
	var c forge.Change
	if p.Title != asked.Title {
		c.Title = &asked.Title
	}
	if !isSameBody(p.Body, asked.Body) {
		c.Body = &asked.Body
	}
	if c.Title != nil || c.Body != nil {
		var err error
		if p, err = f.Update(ctx, r, p.Number, c); err != nil {
			return out, err
		}
	}
	out = pullRequestOf(p, asked.RepoURL)
	out.Body = p.Body
	return out, nil
}

// isSameBody compares bodies, ignoring differences that a host may introduce.
func isSameBody(a, b string) bool {
	plain := func(s string) string { return forge.AsWritten(strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n"))) }
	return plain(a) == plain(b)
}

// FailureOf converts a fault to its form in the journal.
func FailureOf(err error) agent.Failure {
	f := fault.Of(err)
	return agent.Failure{Code: cmp.Or(f.Code, "internal"), Message: f.Message, Hint: f.Advice}
}

func short(commit string) string { return commit[:min(len(commit), 12)] }
