// Package gateway is the only access of machines to git repositories: a
// smart-HTTP server on the streams that come from machines. A machine has a
// credential that allows fetching the repositories of its run, and pushing one
// branch of each. The gateway adds the forge's own credential, which machines
// never see.
//
// Fetches are served from mirrors (package mirror), which are refreshed first.
// Pushes are parsed, checked against the grant, checked in quarantine and
// forwarded. Large files (Git LFS) are forwarded in both directions with the
// same permissions.
//
// A repository is served at the path /<scheme>/<host>/<path>, such as
// /https/github.com/o/r.git or /ssh/git@host:2222/o/r. In a machine,
// url.<base>.insteadOf makes git use that path. [repourl.Repo] documents how
// repository names are compared.
//
// Everything from a machine is treated as hostile: sizes, times and the number
// of requests are limited, and names are parsed and compared, but never become
// an argument or a URL for git. The caller of this package decides what a run
// may do, with [Gateway.Grant].
package gateway

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"aloft/internal/control/lfs"
	"aloft/internal/control/mirror"
	"aloft/internal/control/repourl"
	"aloft/internal/fault"
)

// Credential is a login for a forge; see [mirror.Credential].
type Credential = mirror.Credential

// Config holds the folder of mirrors and the limits for machines.
type Config struct {
	Dir         string       // folder of mirrors, created if needed; no other process may use it
	Credentials []Credential // the longest matching URL prefix wins
	// Files are folders of this host whose repositories file:// URLs may name;
	// none if empty. Repositories in Private are never used.
	Files, Private []string
	Host           mirror.Host  // see [mirror.Config]
	GitPath        string       // defaults to "git" on the PATH
	Environ        []string     // os.Environ(); git gets PATH, proxies, CAs and ssh agent from it
	Logger         *slog.Logger // nil means no logging
	MaxPack        int64        // bytes of one push, and of one large file; 2 GiB if 0
	MaxMirror      int64        // bytes of one mirror; 32 GiB if 0
	MaxRefs        int          // branches and tags of a repository; 250,000 if 0
	Network        Network      // checks git servers without a credential; nil allows all
	LFSHosts       []string     // hosts in private networks that may store large files
	MaxRequests    int          // concurrent requests per machine; 8 if 0
	// Room returns an error if the disk of Dir is nearly full; the gateway then
	// refuses pushes above 1 MiB. nil means no check.
	Room func() error
	// Hold counts that a push of the agent is unpacked, with the memory in bytes that
	// it may use, until release is called. nil counts nothing.
	Hold func(agentID string, bytes int64) (release func())
	// Notes makes the gateway write a git note for each commit that a run has
	// pushed, and push the notes; see [mirror.Mirror.Note].
	Notes bool
}

// Network checks hosts that the operator's configuration does not name, and
// dials them.
type Network interface {
	mirror.Network
	lfs.Network
}

// Gateway serves git to machines. Its methods are safe for concurrent use.
type Gateway struct {
	mirrors     *mirror.Mirrors
	lfs         *lfs.Client
	spool       string // folder for large files in transit, emptied on start
	log         *slog.Logger
	maxPack     int64
	maxRequests int
	serving     sync.WaitGroup // running requests
	large       chan struct{}  // limits large fetch requests
	room        func() error   // may be nil
	hold        func(agentID string, bytes int64) (release func())
	unpacking   [2]lane       // concurrency limits for unpacking small and large pushes
	pushWait    time.Duration // timeout of a push that waits in a lane

	notes     bool
	noting    sync.WaitGroup  // notes that are being written
	noteCtx   context.Context // ends when the gateway closes
	stopNotes context.CancelFunc

	mu       sync.Mutex
	sessions map[[32]byte]*session // by hash of the credential
}

// New opens the mirrors and cleans up after a killed server. It fails if git is
// missing, a credential is malformed, or another process uses the folder.
func New(c Config) (*Gateway, error) {
	g := &Gateway{
		log: c.Logger, lfs: lfs.New(c.LFSHosts, c.Network), spool: filepath.Join(c.Dir, "quarantine"),
		maxPack: c.MaxPack, maxRequests: c.MaxRequests, large: make(chan struct{}, maxLarge), sessions: map[[32]byte]*session{},
		room: c.Room, hold: c.Hold, unpacking: lanes(), pushWait: maxPushWait,
	}
	g.notes = c.Notes
	g.noteCtx, g.stopNotes = context.WithCancel(context.Background())
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.hold == nil {
		g.hold = func(string, int64) func() { return func() {} }
	}
	if g.maxPack == 0 {
		g.maxPack = 2 << 30
	}
	if g.maxRequests == 0 {
		g.maxRequests = 8
	}
	var err error
	g.mirrors, err = mirror.Open(mirror.Config{
		Dir: c.Dir, Credentials: c.Credentials, Files: c.Files, Private: c.Private, Host: c.Host, Network: c.Network, GitPath: c.GitPath, MaxMirror: c.MaxMirror, MaxRefs: c.MaxRefs, Environ: c.Environ, Logger: g.log,
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Unconfined returns nil if git runs confined, as a separate user that cannot
// see the server's files, and otherwise the reason why it does not.
func (g *Gateway) Unconfined() error { return g.mirrors.Unconfined() }

// Close revokes every grant, cancels running requests, waits for them and
// unlocks the folder. Closing again is a no-op.
func (g *Gateway) Close() error {
	g.mu.Lock()
	for _, s := range g.sessions {
		s.end()
	}
	clear(g.sessions)
	g.mu.Unlock()
	g.serving.Wait()
	g.stopNotes()
	g.noting.Wait()
	g.lfs.Close()
	return g.mirrors.Close()
}

// RefInfo lists a repository's refs as its server reported them at one moment.
type RefInfo struct {
	DefaultBranch string
	Commit        string            // commit of the ref; "" if the repository has no commits
	Branch        string            // name of the ref without refs/heads/, if it is a branch
	Branches      map[string]string // commits by branch name
}

// CodeRefNotFound is the fault code for a ref that does not exist.
const CodeRefNotFound = mirror.CodeRefNotFound

// Check gets the refs of a repository from its server and resolves one: a
// branch, a tag, a commit, or the default branch if ref is empty. The error is
// a [fault.Error] for the person who started the run, with one of the codes
// repo_url_invalid, repo_not_found, credential_refused, repo_unreachable,
// ref_not_found and disk_full.
func (g *Gateway) Check(ctx context.Context, repoURL, ref string) (RefInfo, error) {
	r, m, err := g.open(repoURL)
	if err != nil {
		return RefInfo{}, err
	}
	snap, err := m.Refresh(ctx, r)
	if err != nil {
		return RefInfo{}, err
	}
	got, err := m.Resolve(ctx, r, ref)
	if err != nil {
		return RefInfo{}, err
	}
	return RefInfo{snap.DefaultBranch, got.Commit, got.Branch, snap.Branches()}, nil
}

// Diff returns at most max bytes of the changes on branch since its merge base
// with base (a branch, tag or commit). It first refreshes both from the
// repository's server. It returns the errors of [Gateway.Check].
func (g *Gateway) Diff(ctx context.Context, repoURL, base, branch string, max int) (diff string, truncated bool, err error) {
	m, from, to, err := g.between(ctx, repoURL, base, branch)
	if err != nil {
		return "", false, err
	}
	return m.Diff(ctx, from, to, max)
}

// Patch holds changes that git apply can apply.
type Patch = mirror.Patch

// Patch is like [Gateway.Diff], but returns a patch that git can apply. Changes
// of more than max bytes are a fault.
func (g *Gateway) Patch(ctx context.Context, repoURL, base, branch string, max int) (Patch, error) {
	m, from, to, err := g.between(ctx, repoURL, base, branch)
	if err != nil {
		return Patch{}, err
	}
	return m.Patch(ctx, from, to, max)
}

// between returns the current commits of base and branch, and a mirror that has
// them.
func (g *Gateway) between(ctx context.Context, repoURL, base, branch string) (m *mirror.Mirror, from, to string, err error) {
	r, m, err := g.open(repoURL)
	if err != nil {
		return nil, "", "", err
	}
	if _, err := m.Refresh(ctx, r); err != nil {
		return nil, "", "", err
	}
	start, err := m.Resolve(ctx, r, base)
	if err != nil {
		return nil, "", "", err
	}
	end, err := m.Resolve(ctx, r, "refs/heads/"+branch)
	if err != nil {
		return nil, "", "", err
	}
	if start.Commit == "" {
		return nil, "", "", fault.NotFound("%s has no commits yet", r).Named(mirror.CodeRefNotFound)
	}
	return m, start.Commit, end.Commit, nil
}

// maxFile is the maximum size in bytes of a file that [Gateway.File] returns.
const maxFile = 1 << 20

// File returns a file of the commit with the given full id, or nil if the
// commit has no such file. It fails if the mirror lacks the commit.
func (g *Gateway) File(ctx context.Context, repoURL, commit, path string) ([]byte, error) {
	_, m, err := g.open(repoURL)
	if err != nil {
		return nil, err
	}
	data, err := m.File(ctx, commit, path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Token returns the current token for a repository, for use with its server's
// API, or "" if none is configured. The error is a fault.
func (g *Gateway) Token(ctx context.Context, repoURL string) (string, error) {
	r, err := repourl.Parse(repoURL)
	if err != nil {
		return "", err
	}
	_, token, err := g.mirrors.Login(ctx, r)
	return token, err
}

func (g *Gateway) open(repoURL string) (repourl.Repo, *mirror.Mirror, error) {
	r, err := repourl.Parse(repoURL)
	if err != nil {
		return repourl.Repo{}, nil, err
	}
	m, err := g.mirrors.Mirror(r)
	return r, m, err
}
