package gitcmd

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"aloft/internal/atomicfile"
)

// Repository holds the folders of a repository.
type Repository struct {
	WorkTree  string
	GitDir    string // contains HEAD and the index
	CommonDir string // contains refs and objects; differs from GitDir only in a linked working tree
}

// Find returns the repository of the working tree that contains dir, or false
// if there is none. Like git, it checks each parent folder. It does not find
// bare repositories.
func Find(dir string) (Repository, bool) {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if r, ok := Open(at); ok {
			return r, true
		}
		if at == filepath.Dir(at) {
			return Repository{}, false
		}
	}
}

// Open returns the repository of a working tree, or false if there is none.
func Open(workTree string) (Repository, bool) {
	at := filepath.Join(workTree, ".git")
	if _, err := os.Lstat(at); err != nil {
		return Repository{}, false
	}
	r := Repository{WorkTree: workTree, GitDir: at}
	if to := named(at, "gitdir: "); to != "" {
		r.GitDir = to
	}
	r.CommonDir = r.GitDir
	if to := named(filepath.Join(r.GitDir, "commondir"), ""); to != "" {
		r.CommonDir = to
	}
	return r, true
}

// SHA256 reports whether the repository is configured for object ids of 64
// digits.
func (r Repository) SHA256() bool {
	text := strings.ToLower(small(filepath.Join(r.CommonDir, "config")))
	return strings.Contains(strings.Join(strings.Fields(text), ""), "objectformat=sha256")
}

// named returns the folder whose name follows prefix in a small file, such as .git in a
// linked working tree or commondir in its git directory. It returns "" if there is no
// such file.
func named(path, prefix string) string {
	at, found := strings.CutPrefix(strings.TrimSpace(small(path)), prefix)
	if !found || at == "" || strings.ContainsAny(at, "\n\x00") {
		return ""
	}
	if !filepath.IsAbs(at) {
		at = filepath.Join(filepath.Dir(path), at)
	}
	return at
}

// small reads up to 64 KiB of a regular file. It does not follow symbolic
// links.
func small(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // opened for reading only
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return ""
	}
	return string(text)
}

// StandIn is a trusted git directory that replaces a repository's own. It uses the
// repository's refs, objects and shallow boundary, but has its own configuration and
// HEAD, and no hooks.
type StandIn struct {
	Dir    string // created if needed; only the caller may be able to write to it
	Common string // folder of the repository's refs and objects; may be relative if only git follows the links
	Head   string // content of HEAD: a commit, or "ref: " and a ref; if empty, HEAD names a branch that does not exist
	Config string // additional lines of the configuration
	Bare   bool
	SHA256 bool
}

// Lay writes the git directory.
func (s StandIn) Lay() error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"objects", "refs", "packed-refs", "shallow"} {
		if err := Link(filepath.Join(s.Common, name), filepath.Join(s.Dir, name)); err != nil {
			return err
		}
	}
	head := s.Head
	if head == "" {
		head = "ref: refs/heads/unborn"
	}
	if err := s.SetHead(head); err != nil {
		return err
	}
	version, format, bare := "0", "", "false"
	if s.SHA256 {
		version, format = "1", "[extensions]\n\tobjectFormat = sha256\n"
	}
	if s.Bare {
		bare = "true"
	}
	config := "[core]\n\trepositoryformatversion = " + version + "\n\tbare = " + bare +
		"\n\thooksPath = " + os.DevNull + "\n\tfsmonitor = false\n\tlogAllRefUpdates = false\n\tattributesFile = " + os.DevNull + "\n" + format + s.Config
	return atomicfile.WriteUnsynced(filepath.Join(s.Dir, "config"), []byte(config), 0o644)
}

// SetHead writes HEAD: a commit, or a symbolic ref.
func (s StandIn) SetHead(to string) error {
	return atomicfile.WriteUnsynced(filepath.Join(s.Dir, "HEAD"), []byte(to+"\n"), 0o644)
}

// Link creates a symbolic link to target at path. It replaces an existing file.
func Link(target, path string) error {
	if now, err := os.Readlink(path); err == nil && now == target {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}

// On returns a Git that works on the repository's HEAD, index and working tree through a
// stand-in. It writes the stand-in to dir, which must not be used concurrently.
func (g Git) On(r Repository, dir string) (Git, error) {
	s := StandIn{
		Dir: dir, Common: r.CommonDir, SHA256: r.SHA256(),
		Config: "[core]\n\texcludesFile = " + Quote(filepath.Join(r.CommonDir, "info/exclude")) + "\n[diff]\n\tignoreSubmodules = dirty\n",
	}
	if head := strings.TrimSpace(small(filepath.Join(r.GitDir, "HEAD"))); !strings.ContainsAny(head, "\n\x00") {
		s.Head = head
	}
	if err := s.Lay(); err != nil {
		return Git{}, err
	}
	g.Home = dir
	g.Env = append(g.Env[:len(g.Env):len(g.Env)], "GIT_DIR="+dir, "GIT_WORK_TREE="+r.WorkTree, "GIT_INDEX_FILE="+filepath.Join(r.GitDir, "index"))
	return g, nil
}
