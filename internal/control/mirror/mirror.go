// Package mirror keeps a bare copy of each repository that agents work on, in
// step with the repository's own server, and does the git work on it: refresh,
// serve a fetch, resolve a ref, take a push in quarantine and pass it on, show
// a difference. It drives the git command, with an environment and a
// configuration of its own, and gives the forge's credential to it by its
// environment only.
//
// It does not know who may do what: package gateway asks that before it calls.
// What a machine sends (a pack, a ref's name) is treated as hostile here all
// the same.
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
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"aloft/internal/fault"
	"aloft/internal/lockfile"
)

// Config says where mirrors are and how upstreams are reached.
type Config struct {
	Dir         string // made if absent; no other process may use it
	Credentials []Credential
	// Files are folders of this host below which file:// URLs may name
	// repositories, absolute; none if empty. Private are folders whose
	// repositories are never used: the server's data.
	Files, Private []string
	Network        Network // judges hosts without a credential; all are allowed if nil
	GitPath        string  // "git" on the PATH if empty
	MaxMirror      int64   // bytes of one mirror's packs; 32 GiB if 0
	// Environ is the process's environment (os.Environ()), from which git gets
	// the PATH, proxies, certificate authorities and the ssh agent.
	Environ []string
	Logger  *slog.Logger // nothing is logged if nil
}

// Mirrors are all mirrors of a server. Its methods are safe for concurrent use.
type Mirrors struct {
	dir, home   string
	gitPath     string
	baseEnv     []string
	proxied     bool // upstreams are reached through a proxy: do not probe them
	credentials []credential
	network     Network // may be nil
	files       []root
	private     []string
	path        string // PATH
	maxMirror   int64
	log         *slog.Logger
	lock        *os.File
	ctx         context.Context // of work that outlives a request
	stop        context.CancelCauseFunc
	work        sync.WaitGroup
	tending     chan struct{} // held by whoever repacks

	mu   sync.Mutex
	byID map[string]*Mirror
}

// Open opens the mirrors of a folder and clears away what a server that was
// killed left unfinished. It fails if another process has the folder open.
func Open(c Config) (*Mirrors, error) {
	s := &Mirrors{
		dir: c.Dir, home: filepath.Join(c.Dir, "home"), gitPath: c.GitPath,
		maxMirror: cmp.Or(c.MaxMirror, 32<<30), network: c.Network, log: c.Logger, byID: map[string]*Mirror{},
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
	if s.gitPath == "" {
		s.gitPath = "git"
	}
	path, err := exec.LookPath(s.gitPath)
	if err != nil {
		return nil, fmt.Errorf("git is needed and was not found; install it (apt-get install git): %w", err)
	}
	s.gitPath = path
	if s.files, s.private, err = folders(c); err != nil {
		return nil, err
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
	if err := s.checkVersion(); err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	return s, nil
}

// checkVersion refuses a git that lacks what this package asks of it: its
// configuration by environment, and upload-pack's own list of refs.
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

// handedOnWithin is how long what a killed server was just starting may hold its lock.
const handedOnWithin = 5 * time.Second

// prepare makes the folders, takes the lock and removes quarantines.
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
	if err := os.RemoveAll(quarantine); err != nil {
		return err
	}
	return os.Mkdir(quarantine, 0o700)
}

func (s *Mirrors) unlock() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// Close stops what is under way, waits for it and gives the folder up. Closing
// again is no error.
func (s *Mirrors) Close() error {
	s.stop(errClosed)
	s.work.Wait()
	if err := s.unlock(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Mirror returns the mirror of a repository, which need not exist yet.
func (s *Mirrors) Mirror(r Repo) (*Mirror, error) {
	if r.scheme == "" {
		return nil, fault.Invalid("no repository").Named("repo_url_invalid")
	}
	if _, _, ok := s.rootOf(r); r.scheme == "file" && !ok {
		return nil, fault.Denied("repository %s: file:// repositories are not allowed there on this server", r).Named("repo_url_invalid").
			Hint("use an https or ssh URL, or name a folder above it in the server's configuration (git.allow_file)")
	}
	sum := sha256.Sum256([]byte(r.Key()))
	id := hex.EncodeToString(sum[:16])
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.byID[id]
	if m == nil {
		m = &Mirror{all: s, key: r.Key(), dir: filepath.Join(s.dir, "mirrors", id+".git"), write: make(chan struct{}, 1)}
		s.byID[id] = m
	}
	return m, nil
}

// Mirror is the bare copy of one repository. Its methods are safe for
// concurrent use. Those that take a Repo use its spelling of the URL towards
// the server that has it.
type Mirror struct {
	all   *Mirrors
	key   string
	dir   string
	write chan struct{} // held by whoever changes refs; a mutex that heeds a context

	mu            sync.Mutex
	running, next *flight
	prepared      bool // in this process: exists, stale locks removed
	headKnown     bool // in this process: the upstream was asked for its default branch
	snapshot      Snapshot
	moved         map[string]Repo      // by the URL that the server redirects
	retired       map[string]time.Time // ids that refs stood for, and until when
}

// Snapshot is what the refs of a mirror were at one moment.
type Snapshot struct {
	DefaultBranch string
	Refs          []Ref // branches and tags, in the order of their names
}

// Ref is a name and what it stands for.
type Ref struct {
	Name string // refs/heads/… or refs/tags/…
	ID   string // 40 or 64 hex digits
}

// ID returns what a full name stands for, or "".
func (s Snapshot) ID(name string) string {
	i, ok := slices.BinarySearchFunc(s.Refs, name, func(r Ref, name string) int { return strings.Compare(r.Name, name) })
	if !ok {
		return ""
	}
	return s.Refs[i].ID
}

// Snapshot returns the refs as the last refresh or push of this process left them.
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

// prepare makes the mirror if there is none and clears away the locks of a git
// that was killed. The write lock is held.
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
	} else if err := m.removeLocks(); err != nil {
		return fmt.Errorf("mirror %s: %w", m.key, err)
	}
	m.mu.Lock()
	m.prepared = true
	m.mu.Unlock()
	return nil
}

// create makes an empty mirror beside its place and moves it there whole.
func (m *Mirror) create(ctx context.Context, format string) error {
	fresh := m.dir + ".new"
	if err := errors.Join(os.RemoveAll(fresh), os.RemoveAll(m.dir)); err != nil {
		return err
	}
	args := []string{"init", "--quiet", "--bare", "--template=", "--object-format=" + format, fresh}
	if _, _, err := m.all.git(ctx, invocation{args: args}); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(fresh, "description"), []byte(m.key+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, m.dir)
}

func (m *Mirror) removeLocks() error {
	return filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			// Objects are many and have no locks, but packs are few.
			if len(d.Name()) == 2 && filepath.Base(filepath.Dir(path)) == "objects" {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".lock") || strings.HasPrefix(d.Name(), "tmp_") || d.Name() == "gc.pid" {
			return os.Remove(path)
		}
		return nil
	})
}

// Branches returns each branch's name, without refs/heads/, and its commit.
func (s Snapshot) Branches() map[string]string {
	out := map[string]string{}
	for _, r := range s.Refs {
		if name, ok := strings.CutPrefix(r.Name, "refs/heads/"); ok {
			out[name] = r.ID
		}
	}
	return out
}
