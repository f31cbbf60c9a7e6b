package transfer

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pkg/sftp"
)

// machine is an sftp client of a server for this computer's own files.
func machine(t *testing.T) *sftp.Client {
	t.Helper()
	here, there := net.Pipe()
	server, err := sftp.NewServer(there)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(); _ = there.Close() }()
	c, err := sftp.NewClientPipe(here, here)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = here.Close(); _ = c.Close() })
	return c
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestThereAndBack(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/src/a.sh", "a", 0o751)
	write(t, dir+"/src/deep/er/b", strings.Repeat("b", 1<<20), 0o444)
	for name, to := range map[string]string{"in": "deep/er/b", "out": "../../etc", "abs": "/etc/passwd", "deep/er/top": "../..", "deep/er/far": "top/../../secret"} {
		if err := os.Symlink(to, dir+"/src/"+name); err != nil {
			t.Fatal(err)
		}
	}
	c := machine(t)
	if r, err := Put(c, dir+"/src", dir+"/there"); err != nil || r.Files != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	r, err := Get(c, dir+"/there", dir+"/back")
	if err != nil || r.Files != 2 || len(r.Skipped) != 3 {
		t.Fatalf("%+v %v", r, err)
	}
	if info, err := os.Stat(dir + "/back/a.sh"); err != nil || info.Mode() != 0o751 {
		t.Errorf("%v %v", info, err)
	}
	if info, err := os.Stat(dir + "/back/in"); err != nil || info.Size() != 1<<20 || info.Mode() != 0o444 {
		t.Errorf("%v %v", info, err)
	}
}

// An existing file at the destination may be a link from an earlier copy.
func TestNothingIsWrittenThroughALink(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/there/x", "new", 0o644)
	write(t, dir+"/victim", "old", 0o644)
	if err := os.Mkdir(dir+"/back", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/back/there", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/victim", dir+"/back/there/x"); err != nil {
		t.Fatal(err)
	}
	if _, err := Get(machine(t), dir+"/there", dir+"/back"); err == nil {
		t.Error("it is taken for a file")
	}
	f, err := os.Open(dir + "/victim")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, _ := io.ReadAll(f); string(got) != "old" {
		t.Errorf("the file behind the link is %q", got)
	}
}

func FuzzSafe(f *testing.F) {
	for _, name := range []string{"a", "..", ".", "", "a/b", "a\x00", "../a"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if safe(name) && (filepath.Join("d", name) == "d" || filepath.Dir(filepath.Join("d", name)) != "d") {
			t.Errorf("%q leads elsewhere", name)
		}
	})
}

// lying is the file list of an sftp server that returns another name for every
// path.
type lying struct{ sftp.FileLister }

func (lying) RealPath(string) (string, error) { return "/root/.bashrc", nil }

// A copy gets the name that the person wrote, whatever name the machine
// returns.
func TestNameIsNotTheMachines(t *testing.T) {
	here, there := net.Pipe()
	handlers := sftp.InMemHandler()
	handlers.FileList = lying{handlers.FileList}
	server := sftp.NewRequestServer(there, handlers)
	go func() { _ = server.Serve(); _ = there.Close() }()
	c, err := sftp.NewClientPipe(here, here)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = here.Close(); _ = c.Close() })
	f, err := c.Create("/report.html")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, "echo hacked"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if r, err := Get(c, "/x/../report.html", home); err != nil || r.Files != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	entries, err := os.ReadDir(home)
	if err != nil || len(entries) != 1 || entries[0].Name() != "report.html" {
		t.Errorf("the copy is %v, %v", entries, err)
	}
	if _, err := Get(c, "/", home); err == nil {
		t.Error("the machine's root was copied without a name")
	}
}
