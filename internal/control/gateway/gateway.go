// Package gateway is the only way by which git in a machine reaches a
// repository: a smart-HTTP server that the control plane serves on the streams
// that come from machines. A machine holds a credential that is good for the
// repositories of its run, to fetch, and for one branch of each, to push. The
// forge's own credential is added here and is never seen there.
//
// Fetches are served from mirrors (package mirror), brought up to date first.
// Pushes are read here, held against the grant, checked in quarantine and
// passed on. Large files (Git LFS) are passed on in both directions, with the
// same rights.
//
// A repository is served below the path /<scheme>/<host>/<path>, such as
// /https/github.com/o/r.git or /ssh/git@host:2222/o/r; a machine's git is
// pointed there by url.<base>.insteadOf. How the names of a repository are
// compared is told at [mirror.Repo].
//
// Everything that a machine sends is taken for hostile: sizes, times and the
// number of requests are bounded, names are parsed and compared, and none
// becomes an argument or a URL for git. The package does not decide what a run
// may do: its caller does, by [Gateway.Grant].
package gateway

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"

	"aloft/internal/control/lfs"
	"aloft/internal/control/mirror"
	"aloft/internal/fault"
)

// Credential is what a forge asks for; see [mirror.Credential].
type Credential = mirror.Credential

// Config says where mirrors are kept and what bounds machines.
type Config struct {
	Dir         string       // for mirrors; made if absent; no other process may use it
	Credentials []Credential // the longest prefix of a repository's URL wins
	// Files are folders of this host below which file:// URLs may name
	// repositories, none if empty; Private are those that they never may.
	Files, Private []string
	GitPath        string       // "git" on the PATH if empty
	Environ        []string     // os.Environ(): the PATH, proxies, authorities and ssh agent for git
	Logger         *slog.Logger // nothing is logged if nil
	MaxPack        int64        // bytes of one push, and of one large file; 2 GiB if 0
	MaxMirror      int64        // bytes of one mirror; 32 GiB if 0
	Network        Network      // judges git servers without a credential; all are allowed if nil
	LFSHosts       []string     // that may keep large files though they are on no public network
	MaxRequests    int          // under way at once from one machine; 8 if 0
}

// Network judges and connects to hosts that the operator has named nowhere.
type Network interface {
	mirror.Network
	lfs.Network
}

// Gateway serves git to machines. Its methods are safe for concurrent use.
type Gateway struct {
	mirrors     *mirror.Mirrors
	lfs         *lfs.Client
	spool       string // folder for large files on their way, which a start empties
	log         *slog.Logger
	maxPack     int64
	maxRequests int
	serving     sync.WaitGroup // requests under way

	mu       sync.Mutex
	sessions map[[32]byte]*session // by the hash of the credential
}

// New opens the mirrors and clears away what a killed server left there. It
// fails if git is missing, a credential cannot be right, or another process
// has the folder.
func New(c Config) (*Gateway, error) {
	g := &Gateway{
		log: c.Logger, lfs: lfs.New(c.LFSHosts, c.Network), spool: filepath.Join(c.Dir, "quarantine"),
		maxPack: c.MaxPack, maxRequests: c.MaxRequests, sessions: map[[32]byte]*session{},
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.maxPack == 0 {
		g.maxPack = 2 << 30
	}
	if g.maxRequests == 0 {
		g.maxRequests = 8
	}
	var err error
	g.mirrors, err = mirror.Open(mirror.Config{
		Dir: c.Dir, Credentials: c.Credentials, Files: c.Files, Private: c.Private, Network: c.Network, GitPath: c.GitPath, MaxMirror: c.MaxMirror, Environ: c.Environ, Logger: g.log,
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Close revokes every grant, ends the requests under way, waits for them and
// gives the folder up. Closing again is no error.
func (g *Gateway) Close() error {
	g.mu.Lock()
	for _, s := range g.sessions {
		s.end()
	}
	clear(g.sessions)
	g.mu.Unlock()
	g.serving.Wait()
	g.lfs.Close()
	return g.mirrors.Close()
}

// RefInfo is what a repository's server says of it at one moment.
type RefInfo struct {
	DefaultBranch string
	Commit        string            // that the ref stands for; "" in a repository without commits
	Branch        string            // the ref's name without refs/heads/, if it is a branch
	Branches      map[string]string // every branch and its commit
}

// CodeRefNotFound is the code of the fault that a repository lacks a ref.
const CodeRefNotFound = mirror.CodeRefNotFound

// Check asks a repository's server for its refs and resolves one: a branch, a
// tag or a commit, or the default branch if ref is empty. The error is a
// [fault.Error] with one of the codes repo_url_invalid, repo_not_found,
// credential_refused, repo_unreachable, ref_not_found and disk_full, in words
// for the person who began the run.
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

// Diff returns what the branch changed since it left base, a branch, tag or
// commit, as the repository's server has them now: at most max bytes. Errors
// are those of [Gateway.Check].
func (g *Gateway) Diff(ctx context.Context, repoURL, base, branch string, max int) (diff string, truncated bool, err error) {
	r, m, err := g.open(repoURL)
	if err != nil {
		return "", false, err
	}
	if _, err := m.Refresh(ctx, r); err != nil {
		return "", false, err
	}
	from, err := m.Resolve(ctx, r, base)
	if err != nil {
		return "", false, err
	}
	to, err := m.Resolve(ctx, r, "refs/heads/"+branch)
	if err != nil {
		return "", false, err
	}
	if from.Commit == "" {
		return "", false, fault.NotFound("%s has no commits yet", r).Named(mirror.CodeRefNotFound)
	}
	return m.Diff(ctx, from.Commit, to.Commit, max)
}

// maxFile bounds a file that [Gateway.File] returns, in bytes.
const maxFile = 1 << 20

// File returns a file of a repository as a commit has it, whose id is whole;
// nil if it has none there. A commit that the mirror does not hold is an error.
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

// Token is the one that git has now for a repository, for its server's API; ""
// where none is configured. The error is a fault.
func (g *Gateway) Token(ctx context.Context, repoURL string) (string, error) {
	r, err := mirror.ParseURL(repoURL)
	if err != nil {
		return "", err
	}
	_, token, err := g.mirrors.Login(ctx, r)
	return token, err
}

// PathOf is the path below which the gateway serves a repository.
func PathOf(repoURL string) (string, error) {
	r, err := mirror.ParseURL(repoURL)
	if err != nil {
		return "", err
	}
	return r.Path(), nil
}

func (g *Gateway) open(repoURL string) (mirror.Repo, *mirror.Mirror, error) {
	r, err := mirror.ParseURL(repoURL)
	if err != nil {
		return mirror.Repo{}, nil, err
	}
	m, err := g.mirrors.Mirror(r)
	return r, m, err
}
