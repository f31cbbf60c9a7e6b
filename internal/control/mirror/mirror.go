// Package mirror keeps a bare copy of each repository that agents work on, and
// performs the git operations on these mirrors: refresh them from the
// repository's server, serve fetches, resolve refs, check pushes in quarantine
// and forward them, show diffs. It runs the git command with its own
// environment and configuration, and passes the forge's credential only through
// the environment.
//
// The package does not check permissions: package gateway checks them first.
// Everything that a machine sends, such as packs and ref names, is treated as
// hostile here too.
package mirror

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/repourl"
	"aloft/internal/fault"
	"aloft/internal/lockfile"
)

// Config holds the folder of mirrors and how to reach upstreams.
type Config struct {
	Dir         string // created if needed; no other process may use it
	Credentials []Credential
	// Files are absolute paths of folders whose repositories file:// URLs may
	// name; empty allows none. Repositories in Private, the server's data, are
	// never used.
	Files, Private []string
	Host           Host    // nil means a [Local] with Files and Private, which otherwise have no effect
	Network        Network // checks hosts without a credential; nil allows all
	GitPath        string  // defaults to "git" on the PATH
	MaxMirror      int64   // bytes of one mirror's packs; 32 GiB if 0
	MaxRefs        int     // branches and tags of one upstream; 250,000 if 0
	// Environ is the process's environment (os.Environ()), from which git gets
	// PATH, proxy settings, CAs and the ssh agent.
	Environ []string
	Logger  *slog.Logger // nil means no logging
}

// Mirrors holds all mirrors of a server. Its methods are safe for concurrent
// use.
type Mirrors struct {
	dir, home   string
	gitPath     string
	baseEnv     []string
	proxied     bool // git reaches upstreams through a proxy, so do not probe them directly
	credentials []credential
	network     Network // may be nil
	path        string  // PATH
	host        Host
	confined    bool     // git runs confined
	unconfined  error    // why git does not run confined
	visible     []string // CA files that git's environment names
	programs    []string // git's programs, if git is installed in an unusual folder
	maxMirror   int64
	maxRefs     int
	log         *slog.Logger
	lock        *os.File
	ctx         context.Context // context of work that outlives a request
	stop        context.CancelCauseFunc
	work        sync.WaitGroup
	tending     chan struct{} // held while repacking

	mu   sync.Mutex
	byID map[string]*Mirror
}

// Open opens the mirrors in a folder and cleans up after a killed server. It
// fails if another process uses the folder.
func Open(c Config) (*Mirrors, error) {
	s := &Mirrors{
		dir: c.Dir, home: filepath.Join(c.Dir, "home"), gitPath: c.GitPath,
		maxMirror: cmp.Or(c.MaxMirror, 32<<30), maxRefs: cmp.Or(c.MaxRefs, 250_000), network: c.Network, log: c.Logger, byID: map[string]*Mirror{},
		tending: make(chan struct{}, 1),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, cred := range c.Credentials {
		parsed, err := parseCredential(cred)
		if err != nil {
			return nil, err
		}
		s.credentials = append(s.credentials, parsed)
	}
	var err error
	if s.gitPath, err = findGit(c.GitPath); err != nil {
		return nil, err
	}
	if s.host = c.Host; s.host == nil {
		s.host, err = NewLocal(LocalConfig{Dir: c.Dir, Files: c.Files, Private: c.Private, GitPath: c.GitPath, Environ: c.Environ, Server: os.Geteuid()})
		if err != nil {
			return nil, err
		}
	}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("open mirrors: %w", err), s.unlock())
	}
	s.baseEnv, s.path = baseEnviron(c.Environ)
	s.proxied = slices.ContainsFunc(c.Environ, func(kv string) bool {
		name, value, _ := strings.Cut(strings.ToLower(kv), "=")
		return value != "" && (name == "http_proxy" || name == "https_proxy" || name == "all_proxy")
	})
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.confine()
	if err := s.checkVersion(); err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	return s, nil
}

// checkVersion refuses a git that is too old: the package needs configuration
// through the environment, and upload-pack --http-backend-info-refs.
func (s *Mirrors) checkVersion() error {
	out, _, err := s.git(s.ctx, invocation{args: []string{"version"}})
	if err != nil {
		return fmt.Errorf("run %s: %w", s.gitPath, err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "git version %d.%d", &major, &minor); err != nil || major < 2 || major == 2 && minor < 34 {
		return fmt.Errorf("%s is %q; git 2.34 or newer is needed", s.gitPath, Plain(strings.TrimSpace(string(out))))
	}
	return nil
}

// handedOnWithin is how long to wait for a killed server's child process to
// close its inherited lock.
const handedOnWithin = 5 * time.Second

// prepare creates the folders, takes the lock and removes old quarantines.
func (s *Mirrors) prepare() error {
	var err error
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	s.home = filepath.Join(s.dir, "home")
	for _, d := range []string{s.dir, s.home, filepath.Join(s.dir, "mirrors")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	if s.lock, err = os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := lockfile.Exclusive(s.lock, handedOnWithin); err != nil {
		return fmt.Errorf("%s is in use by another server: %w", s.dir, err)
	}
	quarantine := filepath.Join(s.dir, "quarantine")
	if err := s.remove(quarantine); err != nil {
		return err
	}
	return os.Mkdir(quarantine, 0o700)
}

// remove removes a folder that may contain files of confined git. It succeeds
// if the folder is missing.
func (s *Mirrors) remove(dir string) error {
	return errors.Join(s.host.Empty(dir), os.RemoveAll(dir))
}

// discard removes a folder in quarantine. If it fails, the next start of the
// server removes the rest.
func (s *Mirrors) discard(dir string) {
	if err := s.remove(dir); err != nil {
		s.log.Warn("cannot remove a folder in quarantine", "folder", dir, "err", err)
	}
}

func (s *Mirrors) unlock() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// Close stops running work, waits for it and unlocks the folder. Closing again
// is a no-op.
func (s *Mirrors) Close() error {
	s.stop(errClosed)
	s.work.Wait()
	if err := s.unlock(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Mirror returns the mirror of a repository. It is created on first use.
func (s *Mirrors) Mirror(r repourl.Repo) (*Mirror, error) {
	if r.Scheme() == "" {
		return nil, fault.Invalid("no repository").Named("repo_url_invalid")
	}
	if r.Scheme() == "file" && !s.host.MayServe(r.String()) {
		return nil, fault.Denied("repository %s: file:// repositories are not allowed there on this server", r).Named("repo_url_invalid").
			Hint("use an https or ssh URL, or name a folder above it in the server's configuration (git.allow_file)")
	}
	sum := sha256.Sum256([]byte(r.Key()))
	id := hex.EncodeToString(sum[:16])
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.byID[id]
	if m == nil {
		m = &Mirror{all: s, key: r.Key(), user: userOf(sum[:]), dir: filepath.Join(s.dir, "mirrors", id+".git"), write: make(chan struct{}, 1)}
		s.byID[id] = m
	}
	return m, nil
}

// Mirror is the bare copy of one repository. Its methods are safe for
// concurrent use. Methods that take a Repo use its spelling of the URL to
// contact the upstream.
type Mirror struct {
	all   *Mirrors
	key   string
	dir   string
	user  int           // user that confined git runs as and who owns the mirror's files
	write chan struct{} // held while changing refs; unlike a mutex, waiting can be cancelled

	mu            sync.Mutex
	running, next *refresh
	prepared      bool // this process has created it, or removed stale locks
	headKnown     bool // this process has asked the upstream for its default branch
	snapshot      Snapshot
	moved         map[string]repourl.Repo // targets of the server's redirects, by URL
	retired       map[string]time.Time    // former tips of refs, with their expiry
	answers       map[string][]byte       // cached output of git by arguments; see answer
}

// Snapshot is a mirror's refs at one moment.
type Snapshot struct {
	DefaultBranch string
	Refs          []Ref // branches and tags, sorted by name
}

// Ref is a ref's name and its object.
type Ref struct {
	Name string // refs/heads/… or refs/tags/…
	ID   string // 40 or 64 hex digits
}

// ID returns the object id of a full ref name, or "".
func (s Snapshot) ID(name string) string {
	i, ok := slices.BinarySearchFunc(s.Refs, name, func(r Ref, name string) int { return strings.Compare(r.Name, name) })
	if !ok {
		return ""
	}
	return s.Refs[i].ID
}

// Snapshot returns the refs as of the last refresh or push in this process.
func (m *Mirror) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snapshot
}

func (m *Mirror) lockWrite(ctx context.Context) error {
	select {
	case m.write <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *Mirror) unlockWrite() { <-m.write }

// prepare creates the mirror if needed, and otherwise tidies it. The caller holds the write lock.
func (m *Mirror) prepare(ctx context.Context) error {
	m.mu.Lock()
	done := m.prepared
	m.mu.Unlock()
	if done {
		return nil
	}
	if _, err := os.Stat(filepath.Join(m.dir, "HEAD")); errors.Is(err, fs.ErrNotExist) {
		if err := m.create(ctx, "sha1"); err != nil {
			return err
		}
	} else if err := m.writable(); err != nil {
		return err
	} else if err := m.all.host.Tidy(m.dir, m.user); err != nil {
		return fmt.Errorf("mirror %s: %w", m.key, err)
	}
	m.mu.Lock()
	m.prepared = true
	m.mu.Unlock()
	return nil
}

// writable returns a fault if git runs unconfined, but the mirror has files of
// a confined user from the time when git ran confined.
func (m *Mirror) writable() error {
	if m.all.confined {
		return nil
	}
	for _, name := range []string{".", "refs", "objects", "objects/pack"} {
		if err := unix.Access(filepath.Join(m.dir, name), unix.W_OK); errors.Is(err, unix.EACCES) {
			return fault.Unavailable("the server cannot write its copy of %s, which it made when this host still confined git", m.key).
				Named(CodeMirrorForeign).Because(err).
				Hint("start the host-daemon again, or stop the server and, as root, run rm -r %s; the server then fetches the repository again", m.dir)
		}
	}
	return nil
}

// create creates an empty mirror under a temporary name and renames it into
// place.
func (m *Mirror) create(ctx context.Context, format string) error {
	fresh := m.dir + ".new"
	if err := errors.Join(m.all.remove(fresh), m.all.remove(m.dir)); err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(fresh, 0o700), m.all.host.Share(fresh, m.user)); err != nil {
		return err
	}
	args := []string{"init", "--quiet", "--bare", "--template=", "--object-format=" + format, fresh}
	if _, _, err := m.all.git(ctx, invocation{args: args, changes: true, user: m.user, write: []string{fresh}}); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(fresh, "description"), []byte(m.key+"\n"), 0o600); err != nil {
		return err
	}
	if err := m.all.host.Tidy(fresh, m.user); err != nil {
		return err
	}
	return os.Rename(fresh, m.dir)
}

// Branches maps each branch's name, without refs/heads/, to its commit.
func (s Snapshot) Branches() map[string]string {
	out := map[string]string{}
	for _, r := range s.Refs {
		if name, ok := strings.CutPrefix(r.Name, "refs/heads/"); ok {
			out[name] = r.ID
		}
	}
	return out
}
