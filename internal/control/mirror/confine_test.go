package mirror

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/control/confine"
	"aloft/internal/control/mirror/owner"
	"aloft/internal/control/repourl"
	"aloft/internal/fault"
	"aloft/internal/need"
)

// openConfined opens mirrors whose git is confined. If program is not empty, it
// replaces git.
func openConfined(t *testing.T, dir, program string) *Mirrors {
	t.Helper()
	need.Root(t)
	s, err := Open(Config{Dir: dir, GitPath: program, Environ: []string{"PATH=" + os.Getenv("PATH")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Unconfined(); err != nil {
		need.Missing(t, "confinement", err)
	}
	return s
}

func (s *Mirrors) prepared(t *testing.T, url string) *Mirror {
	t.Helper()
	r, err := repourl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Mirror(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

// standIn is a program that replaces git. On a fetch it makes each attack that
// its environment lists, and prints those that succeed.
const standIn = `#!/bin/sh
case " $* " in
*" fetch "*) ;;
*) exec git "$@" ;;
esac
for file in $READ; do cat "$file" >/dev/null 2>&1 && echo "read $file" >&2; done
for file in $WRITE; do (echo x >>"$file") 2>/dev/null && echo "wrote $file" >&2; done
for file in $MOVE; do mv "$file" "$file.moved" 2>/dev/null && echo "moved $file" >&2; done
: >"$GIT_DIR/objects/pack/of-git" && echo "can work" >&2
`

// TestHostileGit replaces git by a hostile program. It must reach only the
// objects and refs of its mirror. Without confinement every attack must
// succeed.
func TestHostileGit(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	program := filepath.Join(t.TempDir(), "git-stand-in")
	if err := os.WriteFile(program, []byte(standIn), 0o755); err != nil {
		t.Fatal(err)
	}
	s := openConfined(t, dir, program)
	m, other := s.prepared(t, "https://a.example/a.git"), s.prepared(t, "https://a.example/b.git")
	claim := filepath.Join(m.dir, owner.ClaimsFolder, "claim")
	if err := os.MkdirAll(filepath.Dir(claim), 0o700); err != nil {
		t.Fatal(err)
	}
	secret, store := filepath.Join(outside, "secret.key"), filepath.Join(outside, "aloft.db")
	for _, f := range []string{claim, secret, store} {
		if err := os.WriteFile(f, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := []string{secret, store, "/etc/shadow", filepath.Join(other.dir, "config"), filepath.Join(dir, "lock"), "/proc/self/environ", claim}
	write := []string{secret, store, filepath.Join(other.dir, "objects/pack/new"), filepath.Join(dir, "home/new"), filepath.Join(m.dir, "config"), filepath.Join(m.dir, "HEAD"), claim}
	move := []string{filepath.Join(m.dir, "config"), filepath.Join(m.dir, owner.ClaimsFolder), filepath.Join(m.dir, "objects/pack"), filepath.Join(m.dir, "objects")}
	run := func(changes bool) string {
		_, stderr, err := m.git(t.Context(), invocation{args: []string{"fetch"}, changes: changes, network: true, env: []string{
			"READ=" + strings.Join(read, " "), "WRITE=" + strings.Join(write, " "), "MOVE=" + strings.Join(move, " "),
		}})
		if err != nil && changes {
			t.Errorf("%v: %s", err, stderr)
		}
		return strings.TrimSpace(stderr)
	}
	if got := run(true); got != "can work" {
		t.Errorf("in a jail that may change the mirror: %s", got)
	}
	if got := run(false); strings.Contains(got, "read ") || strings.Contains(got, "wrote ") || strings.Contains(got, "moved ") || strings.Contains(got, "can work") {
		t.Errorf("in a jail that may read the mirror: %s", got)
	}
	confine := s.withoutJail()
	got := run(false)
	confine()
	for verb, files := range map[string][]string{"read": read, "wrote": write, "moved": move} {
		for _, f := range files {
			if !strings.Contains(got, verb+" "+f+"\n") {
				t.Errorf("without a jail it has not %s %s", verb, f)
			}
		}
	}
}

// TestOwners checks that mirrors that are older than the confinement get the confined
// user as their owner, even if the change is interrupted and repeated, and that git
// then works on them.
func TestOwners(t *testing.T) {
	dir := t.TempDir()
	s := openConfined(t, dir, "")
	confine := s.withoutJail()
	m := s.prepared(t, "https://a.example/a.git")
	out, _, err := m.git(t.Context(), invocation{args: []string{"hash-object", "-w", "--stdin"}, stdin: strings.NewReader("text")})
	if err != nil {
		t.Fatal(err)
	}
	blob := strings.TrimSpace(string(out))
	if _, _, err := m.git(t.Context(), invocation{args: []string{"update-ref", "refs/tags/t", blob}}); err != nil {
		t.Fatal(err)
	}
	if err := m.writeClaim(Update{Claim: "c", Branch: "b"}, claim{made: true}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"refs/tags/t.lock", "objects/pack/tmp_pack_x"} {
		if err := os.WriteFile(filepath.Join(m.dir, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Links are not followed: their targets keep their owner.
	target := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(m.dir, "refs/link")); err != nil {
		t.Fatal(err)
	}
	confine()
	// An earlier attempt was interrupted after a few files.
	if err := os.Lchown(filepath.Join(m.dir, "refs/tags"), m.user, m.user); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m.prepared = false
		if err := m.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	owners := map[string]int{}
	err = filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(m.dir, path)
		owners[rel] = int(info.Sys().(*syscall.Stat_t).Uid)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, uid := range owners {
		want := m.user
		if path == owner.ClaimsFolder || filepath.Dir(path) == owner.ClaimsFolder || slices.Contains([]string{"HEAD", "config", "description", ".", "objects", "objects/pack"}, path) {
			want = 0
		}
		if uid != want {
			t.Errorf("%s belongs to %d, want %d", path, uid, want)
		}
	}
	if info, err := os.Stat(target); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("the target of a link has another owner: %v", err)
	}
	for _, gone := range []string{"refs/tags/t.lock", "objects/pack/tmp_pack_x"} {
		if _, found := owners[gone]; found {
			t.Errorf("%s is left", gone)
		}
	}
	if out, _, err := m.git(t.Context(), invocation{args: []string{"cat-file", "blob", "refs/tags/t"}}); err != nil || string(out) != "text" {
		t.Errorf("git reads %q, %v", out, err)
	}
	for _, args := range [][]string{{"update-ref", "refs/tags/u", blob}, {"update-ref", "-d", "refs/tags/t"}, {"pack-refs", "--all"}} {
		if _, _, err := m.git(t.Context(), invocation{args: args, changes: true}); err != nil {
			t.Errorf("git %v: %v", args, err)
		}
	}
	if err := m.repack(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLinksInQuarantine checks that the server does not read a file to which a
// pack's index is a link.
func TestLinksInQuarantine(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "pack-x.idx")); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{filepath.Join(dir, "pack-x.idx"), fifo} {
		if f, err := openFile(f); err == nil {
			t.Errorf("opened %s", f.Name())
		}
	}
}

// TestMirrorOfAConfinedUser uses a mirror that confined git has made. A process of an
// ordinary user, who cannot write to it, opens the mirror: the error must say what to
// do.
func TestMirrorOfAConfinedUser(t *testing.T) {
	const url, server = "https://a.example/a.git", 12345
	if dir := os.Getenv("MIRRORS"); dir != "" { // as the ordinary user
		s, err := Open(Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r, err := repourl.Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.Mirror(r)
		if err != nil {
			t.Fatal(err)
		}
		f := fault.Of(m.prepare(t.Context()))
		if f.Code != CodeMirrorForeign || !strings.Contains(f.Advice, "rm -r "+m.dir) || !strings.Contains(f.Message, "a.example/a") {
			t.Errorf("the error is %+v", f)
		}
		return
	}
	dir := t.TempDir()
	s := openConfined(t, dir, "")
	s.prepared(t, url)
	if err := errors.Join(s.Close(), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid == 0 {
			err = os.Lchown(path, server, -1)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestMirrorOfAConfinedUser$")
	cmd.Env = append(os.Environ(), "MIRRORS="+dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: server, Gid: server}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestExportIsRoots checks that exported files belong to root, as the builder
// expects.
func TestExportIsRoots(t *testing.T) {
	s := openConfined(t, t.TempDir(), "")
	m := s.prepared(t, "https://a.example/a.git")
	work := t.TempDir()
	sh := exec.CommandContext(t.Context(), "sh", "-ec", `git init -q -b main . && mkdir d && echo text >d/f && ln -s /etc/passwd l && git add . && git -c user.name=a -c user.email=a@b commit -qm one &&
		git bundle create -q b main && git rev-parse HEAD`)
	sh.Dir = work
	out, err := sh.Output()
	if err != nil {
		t.Fatal(err)
	}
	confine := s.withoutJail() // fetch a local file as root
	if _, _, err := m.git(t.Context(), invocation{args: []string{"fetch", "-q", filepath.Join(work, "b"), "main:main"}}); err != nil {
		t.Fatal(err)
	}
	confine()
	if err := s.host.Tidy(m.dir, m.user); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := m.Export(t.Context(), strings.TrimSpace(string(out)), to); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(to, "d/f")); err != nil || string(text) != "text\n" {
		t.Errorf("%q, %v", text, err)
	}
	for _, f := range []string{"", "d", "d/f", "l"} {
		if info, err := os.Lstat(filepath.Join(to, f)); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("%q is not root's: %v", f, err)
		}
	}
	if info, err := os.Stat("/etc/passwd"); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("the target of a link: %v", err)
	}
}

// withoutJail makes git run unconfined until the returned function is called.
func (s *Mirrors) withoutJail() (confine func()) {
	host := s.host
	s.host, s.confined = unconfinedHost{host}, false
	return func() { s.host, s.confined = host, true }
}

// brokenHost is a host that claims to confine commands but cannot.
type brokenHost struct{ Host }

func (brokenHost) Confined() error { return nil }

func (brokenHost) Run(_ context.Context, c confine.Command) error {
	c.Started()
	return errors.New("no mount namespaces")
}

// TestHostThatCannotConfine checks that git runs as the server's user if the host cannot
// confine it, whether the host says so or the first command fails.
func TestHostThatCannotConfine(t *testing.T) {
	for name, broken := range map[string]func(*Local) Host{
		"Said": func(l *Local) Host { l.jails, l.unconfined = nil, errors.New("not root"); return l },
		"Seen": func(l *Local) Host { return brokenHost{l} },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			local, err := NewLocal(LocalConfig{Dir: dir, Server: os.Geteuid()})
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(Config{Dir: dir, Host: broken(local)})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if s.Unconfined() == nil {
				t.Error("git counts as confined")
			}
			m := s.prepared(t, "https://a.example/a.git")
			if _, _, err := m.git(t.Context(), invocation{args: []string{"hash-object", "-w", "--stdin"}, stdin: strings.NewReader("text"), changes: true}); err != nil {
				t.Error(err)
			}
		})
	}
}
