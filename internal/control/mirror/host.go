package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/control/repourl"
	"aloft/internal/fault"
	"aloft/internal/gitcmd"
)

// A repository on this host may be writable by people who must not act as the
// server, so its hooks and its configuration are never used. git talks to a
// service that runs on a stand-in for the repository (package gitcmd). The
// service runs as the owner of the repository's folder if the server may switch
// to that user; other owners are refused.

// root is a folder in which file:// URLs may name repositories.
type root struct {
	named string // as configured, cleaned
	path  string // with symbolic links resolved
}

// folders validates Files and Private. It refuses roots that contain the
// server's data.
func folders(c LocalConfig) (files []root, private []string, err error) {
	for _, p := range append(slices.Clone(c.Private), c.Dir) {
		if p, err = filepath.Abs(p); err != nil {
			return nil, nil, err
		}
		private = append(private, p)
		if plain, err := filepath.EvalSymlinks(p); err == nil {
			private = append(private, plain)
		}
	}
	for _, named := range c.Files {
		plain, err := filepath.EvalSymlinks(named)
		switch {
		case !filepath.IsAbs(named):
			return nil, nil, fmt.Errorf("git.allow_file: %q is not an absolute path", named)
		case err != nil:
			return nil, nil, fmt.Errorf("git.allow_file: %w", err)
		case plain == "/":
			return nil, nil, fmt.Errorf("git.allow_file: %q is the whole disk; name the folder that the repositories are in", named)
		case slices.ContainsFunc(private, func(p string) bool { return isInside(plain, p) }):
			return nil, nil, fmt.Errorf("git.allow_file: %s is in the server's data folder, which machines write to", named)
		}
		files = append(files, root{filepath.Clean(named), plain})
	}
	return files, private, nil
}

// isInside reports whether path is dir or below it. Both must be clean.
func isInside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// rootOf returns the root that contains a repository, and the repository's path
// relative to it.
func (s *Local) rootOf(r repourl.Repo) (root, string, bool) {
	path := "/" + r.Decoded()
	for _, at := range s.files {
		for _, dir := range []string{at.named, at.path} {
			if isInside(path, dir) {
				return at, "." + path[len(dir):], true
			}
		}
	}
	return root{}, "", false
}

// service is git's server process for a fetch from, or a push to, a repository
// on this host.
type service struct {
	dir     *os.File            // the repository's folder
	standIn gitcmd.StandIn      // stand-in for the repository
	system  string              // path of git's system configuration
	as      *syscall.Credential // user to run as; nil means the server's own user
}

const (
	beneath    = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS
	maxConfig  = 1 << 20 // bytes of a repository's configuration
	maxLinks   = 100     // lines of objects/info/alternates
	serviceDir = 3       // the descriptor of service.dir in the service's process
)

// openat opens a path below dir without following links.
func openat(dir *os.File, path string, flags uint64) (*os.File, error) {
	fd, err := unix.Openat2(int(dir.Fd()), path, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: beneath})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// open opens a repository of this host. The caller must close the service.
// Errors are faults.
func (s *Local) open(ctx context.Context, r repourl.Repo) (_ *service, err error) {
	missing := fault.NotFound("repository %s was not found", r).Named(CodeRepoNotFound).
		Hint("check the path; symbolic links in it are not followed")
	at, rel, ok := s.rootOf(r)
	if !ok {
		return nil, missing
	}
	top, err := os.OpenFile(at.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, missing.Because(err)
	}
	defer func() { _ = top.Close() }()
	dir, err := openat(top, rel, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, missing.Because(err)
	}
	v := &service{dir: dir}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	v.standIn.Bare = true
	if inner, err := openat(dir, ".git", unix.O_PATH|unix.O_DIRECTORY); err == nil {
		_ = dir.Close() // dir is a working tree, so its .git is used instead
		v.dir, v.standIn.Bare = inner, false
	}
	for _, name := range []string{"objects", "refs"} {
		sub, err := openat(v.dir, name, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return nil, missing.Because(err)
		}
		_ = sub.Close() // only checked for existence
	}
	if err := s.mayUse(v, r); err != nil {
		return nil, err
	}
	if err := v.lay(ctx, s); err != nil {
		return nil, fmt.Errorf("read repository %s: %w", r, err)
	}
	return v, nil
}

// mayUse refuses a repository that is in the server's data folder, borrows
// objects from outside of the roots, or belongs to a user whom the server
// cannot switch to.
func (s *Local) mayUse(v *service, r repourl.Repo) error {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", v.dir.Fd()))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(s.private, func(p string) bool { return isInside(path, p) }) {
		return fault.Denied("repository %s is in the server's data folder", r).Named("repo_url_invalid").Hint("name a repository that is elsewhere")
	}
	var info unix.Stat_t
	if err := unix.Fstatat(int(v.dir.Fd()), "", &info, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	own := os.Geteuid()
	switch {
	case own == 0 && info.Uid != 0:
		v.as = &syscall.Credential{Uid: info.Uid, Gid: info.Gid}
	case int(info.Uid) != own && info.Uid != 0:
		return fault.Denied("repository %s belongs to another user of the host than the server's", r).Named(CodeCredentialRefused).
			Hint("change its owner to the user that starts the server, or use ssh")
	}
	links, err := v.read("objects/info/alternates")
	if err != nil {
		return err
	}
	for i, line := range strings.Split(strings.TrimSpace(links), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '"' || i > maxLinks || !s.below(filepath.Join(path, "objects"), line) {
			return fault.Denied("repository %s borrows objects from a folder that git.allow_file does not list", r).
				Named("repo_url_invalid").Hint("copy the objects: git repack -a -d, then remove objects/info/alternates")
		}
	}
	return nil
}

// below reports whether a folder, which may be relative to from, is in a root,
// involves no links, and is outside of the server's data.
func (s *Local) below(from, folder string) bool {
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(from, folder)
	}
	folder = filepath.Clean(folder)
	plain, err := filepath.EvalSymlinks(folder)
	return err == nil && plain == folder &&
		slices.ContainsFunc(s.files, func(f root) bool { return isInside(plain, f.path) }) &&
		!slices.ContainsFunc(s.private, func(p string) bool { return isInside(plain, p) })
}

// read returns a small regular file of the repository, or "" if it does not
// exist.
func (v *service) read(name string) (string, error) {
	f, err := openat(v.dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // opened for reading only
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfig {
		return "", fmt.Errorf("%s is not a regular file of at most %d bytes", name, maxConfig)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxConfig))
	return string(text), err
}

var headPattern = regexp.MustCompile(`^(ref: refs/heads/[!-~]+|[0-9a-f]{40}|[0-9a-f]{64})$`)

// kept lists the settings of a repository that the stand-in copies: which refs
// are hidden or refused, and how files are shared. None of these settings names
// a program.
var kept = map[string]*regexp.Regexp{
	"core.sharedrepository":         regexp.MustCompile(`^(group|true|1|all|world|everybody|2|umask|false|0[0-7]{0,4})$`),
	"receive.denynonfastforwards":   regexp.MustCompile(`^(true|false)$`),
	"receive.denydeletes":           regexp.MustCompile(`^(true|false)$`),
	"receive.denycurrentbranch":     regexp.MustCompile(`^(true|false|refuse|ignore|warn)$`),
	"transfer.hiderefs":             regexp.MustCompile(`^[!^]*[!-~]+$`),
	"receive.hiderefs":              regexp.MustCompile(`^[!^]*[!-~]+$`),
	"uploadpack.hiderefs":           regexp.MustCompile(`^[!^]*[!-~]+$`),
	"uploadpack.allowfilter":        regexp.MustCompile(`^(true|false)$`),
	"uploadpack.allowanysha1inwant": regexp.MustCompile(`^(true|false)$`),
	"uploadpack.allowtipsha1inwant": regexp.MustCompile(`^(true|false)$`),
}

// lay creates the folder that stands in for the repository, with its HEAD and the
// settings in kept. The service's user can read it.
func (v *service) lay(ctx context.Context, s *Local) error {
	text, err := v.read("config")
	if err != nil {
		return err
	}
	// With these arguments git reads no other file and follows no includes.
	out, err := s.settings(ctx, text)
	if err != nil {
		return err
	}
	var config strings.Builder
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		key, value, _ := strings.Cut(string(entry), "\n")
		switch pattern := kept[key]; {
		case key == "extensions.objectformat":
			v.standIn.SHA256 = value == "sha256"
		case strings.HasPrefix(key, "extensions.refstorage") && value != "files":
			return fault.Invalid("its refs are stored as %s, which file:// URLs do not support", Plain(value))
		case pattern == nil, !pattern.MatchString(value):
		default:
			section, name, _ := strings.Cut(key, ".")
			fmt.Fprintf(&config, "[%s]\n\t%s = %s\n", section, name, gitcmd.Quote(value))
		}
	}
	head, err := v.read("HEAD")
	if err != nil {
		return err
	}
	if head = strings.TrimSpace(head); !headPattern.MatchString(head) {
		head = ""
	}
	v.standIn.Head, v.standIn.Config = head, config.String()
	v.standIn.Common = fmt.Sprintf("/proc/self/fd/%d", serviceDir)
	if v.standIn.Dir, err = os.MkdirTemp("", "aloft-repository-"); err != nil {
		return err
	}
	if err := os.Chmod(v.standIn.Dir, 0o755); err != nil { //nolint:gosec // readable by the service's user; contains no secrets
		return err
	}
	v.system = filepath.Join(v.standIn.Dir, "gitconfig")
	return errors.Join(v.standIn.Lay(), os.WriteFile(v.system, []byte("[safe]\n\tdirectory = *\n"), 0o644)) //nolint:gosec // same as above
}

func (v *service) close() {
	_ = v.dir.Close()
	if v.standIn.Dir != "" {
		_ = os.RemoveAll(v.standIn.Dir) // a reboot of the host removes the leftovers
	}
}

// onThisHost runs a git command that talks to a repository of this host.
func (m *Mirror) onThisHost(ctx context.Context, r repourl.Repo, inv invocation) (stdout []byte, stderr string, err error) {
	var refused error
	stdout, stderr, err = m.through(ctx, r, inv, func(ctx context.Context, service string, env []string, far *os.File) (said string) {
		// If the service fails, the command fails too, since its connection breaks.
		said, refused = m.all.host.Serve(ctx, r.String(), service, env, far)
		return said
	})
	if refused != nil {
		return nil, "", refused
	}
	return stdout, stderr, err
}

// through runs a git command that talks to the repository through a socket.
// serve gets the other end, far, and the service's additional environment
// variables. It runs the service (upload-pack or receive-pack), closes far and
// returns what the service printed on stderr.
func (m *Mirror) through(ctx context.Context, r repourl.Repo, inv invocation, serve func(ctx context.Context, service string, env []string, far *os.File) (said string)) (stdout []byte, stderr string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit, errTooSlow)
	defer cancel()
	// A socket is needed instead of pipes: git's helper ends its direction with
	// shutdown, which works although git has inherited the descriptor too.
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, "", err
	}
	near, far := os.NewFile(uintptr(pair[0]), "client"), os.NewFile(uintptr(pair[1]), "service")
	service, env := "upload-pack", []string{"GIT_PROTOCOL=version=2"}
	if inv.args[0] == "push" {
		service, env = "receive-pack", nil
	}
	var said string
	var serving sync.WaitGroup
	serving.Go(func() { said = serve(ctx, service, env, far) })
	inv.args = slices.Clone(inv.args)
	for i, a := range inv.args {
		if a == r.String() {
			inv.args[i] = "fd::3"
		}
	}
	inv.env = append(slices.Clone(inv.env), "GIT_ALLOW_PROTOCOL=fd")
	inv.files = []*os.File{near}
	stdout, stderr, err = m.counted(ctx, inv)
	serving.Wait()
	stderr += said
	if e, ok := errors.AsType[*gitError](err); ok {
		e.stderr = stderr
	}
	if err != nil {
		err = classify(r, nil, stderr, err)
	}
	return stdout, stderr, err
}
