package unprivileged

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/control/confine"
	"aloft/internal/lockfile"
	"aloft/internal/need"
)

// owners returns the owner of each entry below dir, by its path relative to dir.
func owners(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		st := info.Sys().(*syscall.Stat_t)
		all[rel] = fmt.Sprintf("%d:%d", st.Uid, st.Gid)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestGiveData checks the owners in a data folder of an earlier server that ran
// as root, also after an interruption, and checks that the change can be
// reversed.
func TestGiveData(t *testing.T) {
	need.Root(t)
	data := filepath.Join(t.TempDir(), "data")
	for _, dir := range []string{"machines/m", "mirrors/mirrors/a.git/refs", "artifacts/x"} {
		if err := os.MkdirAll(filepath.Join(data, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"aloft.db", "secret.key", "machines/m/f", "mirrors/mirrors/a.git/HEAD", "mirrors/mirrors/a.git/refs/r", "artifacts/x/f"} {
		if err := os.WriteFile(filepath.Join(data, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const git = confine.FirstUser + 5
	for path, uid := range map[string]int{"mirrors/mirrors/a.git": 0, "mirrors/mirrors/a.git/refs": git, "mirrors/mirrors/a.git/refs/r": git} {
		if err := os.Lchown(filepath.Join(data, path), uid, git); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(data, "artifacts/link")); err != nil {
		t.Fatal(err)
	}
	// Simulate an interrupted attempt.
	u := User{ID: 4321, Group: 4322}
	if err := os.Lchown(filepath.Join(data, "artifacts/x"), u.ID, u.Group); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := GiveData(data, u); err != nil {
			t.Fatal(err)
		}
	}
	server, root := "4321:4322", "0:0"
	want := map[string]string{
		".": "0:4322", "aloft.db": server, "secret.key": server, "artifacts": server, "artifacts/x": server, "artifacts/x/f": server, "artifacts/link": server,
		"machines": root, "machines/m": root, "machines/m/f": root, "bin": root, "build": root, "connections": root,
		"mirrors": server, "mirrors/mirrors": server, "mirrors/mirrors/a.git": fmt.Sprintf("4321:%d", git), "mirrors/mirrors/a.git/HEAD": server,
		"mirrors/mirrors/a.git/refs": fmt.Sprintf("%d:%[1]d", git), "mirrors/mirrors/a.git/refs/r": fmt.Sprintf("%d:%[1]d", git),
	}
	got := owners(t, data)
	for path, owner := range want {
		if got[path] != owner {
			t.Errorf("%s belongs to %s, want %s", path, got[path], owner)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d entries, want %d", len(got), len(want))
	}
	if got := owners(t, filepath.Dir(outside))["outside"]; got != root {
		t.Errorf("the target of a link belongs to %s", got)
	}
	if info, err := os.Stat(data); err != nil || info.Mode().Perm() != 0o770 || info.Mode()&os.ModeSticky == 0 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if err := GiveData(data, User{}); err != nil {
		t.Fatal(err)
	}
	for path, owner := range owners(t, data) {
		if strings.HasPrefix(owner, "4321:") {
			t.Errorf("%s still belongs to the server", path)
		}
	}
	if info, err := os.Stat(data); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}

// TestFoldersOfRoot checks that a folder for root's exclusive use is refused if
// another user owns it, or if it is a link.
func TestFoldersOfRoot(t *testing.T) {
	need.Root(t)
	for name, spoil := range map[string]func(path string) error{
		"Owner": func(path string) error {
			if err := os.MkdirAll(path, 0o700); err != nil {
				return err
			}
			return os.Chown(path, 4321, 4321)
		},
		"Link": func(path string) error { return os.Symlink("/etc", path) },
	} {
		data := t.TempDir()
		if err := spoil(filepath.Join(data, "machines")); err != nil {
			t.Fatal(err)
		}
		if err := GiveData(data, User{ID: 4321, Group: 4321}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// run runs a shell command with the privileges of the server's process, and returns
// the output.
func run(t *testing.T, script string, show ...string) string {
	t.Helper()
	need.Root(t)
	cmd := exec.Command("/bin/sh", "-c", script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, "/"
	started := false
	err := Process{Cmd: cmd, User: User{ID: nameless, Group: nameless}, Show: show}.Run(func() { started = true })
	if !started {
		t.Fatal(err)
	}
	return out.String()
}

// TestProcess checks the privileges of the server's process.
func TestProcess(t *testing.T) {
	got := run(t, "id -u; grep -E '^(CapEff|CapPrm|CapAmb|NoNewPrivs|Groups)' /proc/self/status; cat /etc/shadow")
	for _, want := range []string{
		fmt.Sprintf("%d\n", nameless), "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1",
		"/etc/shadow: Permission denied",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}

// TestShow checks that the process can access exactly the shown paths below a folder
// that its user cannot enter, and that this process still sees the whole folder.
func TestShow(t *testing.T) {
	private := t.TempDir()
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	data, file := filepath.Join(private, "a/data"), filepath.Join(private, "script")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(private, "other")} {
		if err := os.WriteFile(path, []byte("text\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	need.Root(t)
	if err := os.Chown(data, nameless, nameless); err != nil {
		t.Fatal(err)
	}
	got := run(t, "ls "+private+" "+private+"/a; cat "+file+"; echo made >"+data+"/made; touch "+private+"/new", data, file)
	if want := private + ":\na\nscript\n\n" + private + "/a:\ndata\ntext\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if text, err := os.ReadFile(filepath.Join(data, "made")); err != nil || string(text) != "made\n" {
		t.Errorf("the file that it made has %q, %v", text, err)
	}
	if entries, err := os.ReadDir(private); err != nil || len(entries) != 3 {
		t.Errorf("this process sees %v, %v", entries, err)
	}
}

// TestFindUser checks which user the server runs as.
func TestFindUser(t *testing.T) {
	if u, err := FindUser("root"); err != nil || u.ID != 0 {
		t.Errorf("root is %v, %v", u, err)
	}
	if _, err := FindUser("no-such-user"); err == nil {
		t.Error("no error for a user that does not exist")
	}
	if u, err := FindUser(""); err != nil || u.ID == 0 {
		t.Errorf("the default user is %v, %v", u, err)
	}
}

// TestLock checks that a data folder is free only after every process that inherited
// its lock has ended.
func TestLock(t *testing.T) {
	need.Root(t)
	data := t.TempDir()
	if err := GiveData(data, User{ID: nameless, Group: nameless}); err != nil {
		t.Fatal(err)
	}
	lock, err := Lock(data, func() { t.Error("it waits for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	stop, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	holder := exec.Command("/bin/sh", "-c", "echo ready; read _")
	holder.Stdin, holder.ExtraFiles = stop, []*os.File{lock}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	free, waits := make(chan error, 1), make(chan struct{})
	go func() {
		f, err := Lock(data, func() { close(waits) })
		if err == nil {
			err = f.Close()
		}
		free <- err
	}()
	<-waits
	again, err := os.Open(filepath.Join(data, rootsOwn[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := lockfile.Exclusive(again, 0); !errors.Is(err, lockfile.ErrHeld) {
		t.Errorf("the process that inherited the lock does not hold it: %v", err)
	}
	if err := hold.Close(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // read has failed
	if err := <-free; err != nil {
		t.Errorf("after its end: %v", err)
	}
}
