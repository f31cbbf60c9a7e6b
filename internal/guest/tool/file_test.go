package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"aloft/internal/guest/tool"
	"aloft/internal/guest/tool/tooltest"
	"aloft/internal/need"
	"aloft/internal/wire/agentv1"
)

// use runs a tool as a model would.
func use(t testing.TB, hand tool.Tool, args map[string]any) tool.Outcome {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	out := hand.Run(t.Context(), tooltest.Call(t, hand.Name, string(text)), func(*agentv1.ToolCallDelta) {})
	tooltest.Check(t, hand.Name, out)
	return out
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestReadOfAGigabyte(t *testing.T) {
	ws := tool.Workspace{Dir: t.TempDir()}
	path := filepath.Join(ws.Dir, "big")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// The file has text at both ends and a hole in between, which reads as one line of a
	// gigabyte.
	if _, err := f.WriteString(strings.Repeat("line\n", 10000)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("\nlast\n"), 1<<30); err != nil {
		t.Fatal(err)
	}
	out := use(t, tool.Read(ws), map[string]any{"path": "big", "offset": 9999, "limit": 2})
	if want := "  9999|line\n 10000|line\n[lines 9999 to 10000 of 10002; continue with offset 10001]\n"; out.Text != want {
		t.Errorf("got %q", out.Text)
	}
	if out = use(t, tool.Read(ws), map[string]any{"path": "big", "offset": -1}); out.Text != " 10002|last\n[lines 10002 to 10002 of 10002]\n" {
		t.Errorf("got %q", out.Text)
	}
	if out = use(t, tool.Read(ws), map[string]any{"path": "big", "offset": -2}); len(out.Text) > 10000 || !strings.Contains(out.Text, "truncated]") {
		t.Errorf("got %d bytes", len(out.Text))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user said so"))
	out = tool.Read(ws).Run(ctx, tooltest.Call(t, "Read", `{"path": "big"}`), nil)
	if !out.Error || !strings.Contains(out.Text, "the user said so") {
		t.Errorf("after the end of the context: %q", out.Text)
	}
}

func TestReadIsBounded(t *testing.T) {
	ws := tool.Workspace{Dir: t.TempDir()}
	put(t, filepath.Join(ws.Dir, "wide"), strings.Repeat(strings.Repeat("x", 999)+"\n", 500))
	out := use(t, tool.Read(ws), map[string]any{"path": "wide"})
	if len(out.Text) > 110_000 || !strings.Contains(out.Text, "continue with offset") {
		t.Errorf("%d bytes, ending %q", len(out.Text), out.Text[len(out.Text)-80:])
	}
	put(t, filepath.Join(ws.Dir, "long"), strings.Repeat("x\n", 5000))
	out = use(t, tool.Read(ws), map[string]any{"path": "long"})
	if !strings.HasSuffix(out.Text, "[lines 1 to 2000 of 5000; continue with offset 2001]\n") {
		t.Errorf("ends %q", out.Text[len(out.Text)-80:])
	}
}

func TestReadGivesThePicture(t *testing.T) {
	ws := tool.Workspace{Dir: t.TempDir()}
	for kind, head := range map[string]string{
		"image/png": "\x89PNG\r\n\x1a\n", "image/jpeg": "\xff\xd8\xff\xe0", "image/gif": "GIF89a", "image/webp": "RIFF\x00\x00\x00\x00WEBPVP8 ",
	} {
		put(t, filepath.Join(ws.Dir, "picture"), head+"data")
		out := use(t, tool.Read(ws), map[string]any{"path": "picture"})
		if len(out.Pictures) != 1 || out.Pictures[0].GetMediaType() != kind || string(out.Pictures[0].GetData()) != head+"data" {
			t.Errorf("%s: %+v", kind, out)
		}
	}
}

func TestSocketIsNoFile(t *testing.T) {
	ws := tool.Workspace{Dir: t.TempDir()}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Join(ws.Dir, "s")}); err != nil {
		t.Fatal(err)
	}
	if out := use(t, tool.Read(ws), map[string]any{"path": "s"}); !out.Error || !strings.Contains(out.Text, "socket") {
		t.Errorf("Read: %q", out.Text)
	}
	if out := use(t, tool.Write(ws), map[string]any{"path": "s", "contents": "x"}); !out.Error || !strings.Contains(out.Text, "socket") {
		t.Errorf("Write: %q", out.Text)
	}
}

func TestEditsKeepTheMode(t *testing.T) {
	ws := tool.Workspace{Dir: t.TempDir()}
	path := filepath.Join(ws.Dir, "run.sh")
	put(t, path, "one\n")
	for _, mode := range []os.FileMode{0o755, 0o600, 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		use(t, tool.Write(ws), map[string]any{"path": "run.sh", "contents": "one\n"})
		use(t, tool.StrReplace(ws), map[string]any{"path": "run.sh", "old_string": "one", "new_string": "two"})
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != mode {
			t.Errorf("mode %v became %v (err %v)", mode, st.Mode(), err)
		}
	}
}

func TestStrReplaceKeepsLineEndsAndMark(t *testing.T) {
	ws := tool.Workspace{Dir: t.TempDir()}
	for _, c := range []struct{ before, old, new, after string }{
		{"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"},
		{"a\r\nb\r\n", "a", "x", "x\r\nb\r\n"},
		{"a\r\nb\nc\n", "b\nc", "x\ny", "a\r\nx\ny\n"},
		{"a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n"},
		{"\uFEFFa\nb\n", "a", "x", "\uFEFFx\nb\n"},
		{"a\xff\nb", "b", "c", "a\xff\nc"},
		{"one\ntwo", "one", "1", "1\ntwo"},
	} {
		put(t, filepath.Join(ws.Dir, "f"), c.before)
		out := use(t, tool.StrReplace(ws), map[string]any{"path": "f", "old_string": c.old, "new_string": c.new})
		got, err := os.ReadFile(filepath.Join(ws.Dir, "f"))
		if err != nil || string(got) != c.after || out.Error {
			t.Errorf("%q became %q, want %q: %s", c.before, got, c.after, out.Text)
		}
	}
}

func TestEditResultTellsTheChange(t *testing.T) {
	ws := tool.Workspace{Dir: t.TempDir()}
	put(t, filepath.Join(ws.Dir, "f"), "one\ntwo\nthree\n")
	out := use(t, tool.StrReplace(ws), map[string]any{"path": "f", "old_string": "two", "new_string": "2\n2.5"})
	s := out.Call.GetEditToolCall().GetResult().GetSuccess()
	if s.GetLinesAdded() != 2 || s.GetLinesRemoved() != 1 || s.GetCreated() {
		t.Errorf("%+v", s)
	}
	if want := "@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three\n"; !strings.HasSuffix(s.GetDiff(), want) || !strings.HasPrefix(s.GetDiff(), "--- a/") {
		t.Errorf("diff %q", s.GetDiff())
	}
	out = use(t, tool.Write(ws), map[string]any{"path": "g", "contents": strings.Repeat("line\n", 20000)})
	s = out.Call.GetEditToolCall().GetResult().GetSuccess()
	if !s.GetCreated() || s.GetLinesAdded() != 20000 || len(s.GetDiff()) > 31000 {
		t.Errorf("created %v, %d lines, a diff of %d bytes", s.GetCreated(), s.GetLinesAdded(), len(s.GetDiff()))
	}
}

// TestWriteIsOneStep checks that concurrent readers see either the old or the
// new contents.
func TestWriteIsOneStep(t *testing.T) {
	ws := tool.Workspace{Dir: t.TempDir()}
	path := filepath.Join(ws.Dir, "f")
	a, b := strings.Repeat("a", 200_000), strings.Repeat("b", 200_000)
	put(t, path, a)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != a && string(got) != b {
				t.Errorf("a reader saw %d bytes (err %v)", len(got), err)
				return
			}
		}
	})
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for j := range 20 {
				text := a
				if (i+j)%2 == 0 {
					text = b
				}
				if out := use(t, tool.Write(ws), map[string]any{"path": "f", "contents": text}); out.Error {
					t.Error(out.Text)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if left, _ := filepath.Glob(filepath.Join(ws.Dir, ".aloft-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestRightsOfTheAgent runs this binary as another user, because root's
// privileges would bypass the permissions.
func TestRightsOfTheAgent(t *testing.T) {
	if dir := os.Getenv("TOOL_TEST_RIGHTS"); dir != "" {
		asAgent(t, dir)
		return
	}
	need.Root(t)
	dir, err := os.MkdirTemp("/tmp", "aloft-rights-") // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	put(t, filepath.Join(dir, "secret"), "x\n")
	put(t, filepath.Join(dir, "others"), "x\n")
	put(t, filepath.Join(dir, "shared"), "x\n")
	put(t, filepath.Join(dir, "closed/f"), "x\n")
	for name, mode := range map[string]os.FileMode{"secret": 0o600, "others": 0o644, "shared": 0o666, "closed": 0o700, ".": 0o755} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "tool.test")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.run=^TestRightsOfTheAgent$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TOOL_TEST_RIGHTS="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

func asAgent(t *testing.T, dir string) {
	ws := tool.Workspace{Dir: dir}
	for _, c := range []struct {
		hand tool.Tool
		args map[string]any
	}{
		{tool.Read(ws), map[string]any{"path": "secret"}},
		{tool.Read(ws), map[string]any{"path": "closed/f"}},
		{tool.Write(ws), map[string]any{"path": "others", "contents": "y\n"}},
		{tool.Write(ws), map[string]any{"path": "new", "contents": "y\n"}},
		{tool.Write(ws), map[string]any{"path": "a/b/new", "contents": "y\n"}},
		{tool.StrReplace(ws), map[string]any{"path": "others", "old_string": "x", "new_string": "y"}},
		{tool.Delete(ws), map[string]any{"path": "others"}},
		{tool.Glob(ws), map[string]any{"glob_pattern": "*", "target_directory": "closed/d"}},
		{tool.Grep(ws), map[string]any{"pattern": "x", "path": "secret"}},
	} {
		if out := use(t, c.hand, c.args); !out.Error || !strings.Contains(out.Text, "permission denied") {
			t.Errorf("%s %v: %q", c.hand.Name, c.args, out.Text)
		}
	}
	// The file is writable but its folder is not. The write preserves the
	// file's owner.
	out := use(t, tool.Write(ws), map[string]any{"path": "shared", "contents": "y\n"})
	st, err := os.Stat(filepath.Join(dir, "shared"))
	if out.Error || err != nil || st.Size() != 2 || st.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("shared: %q, %v", out.Text, err)
	}
}

func TestDiskFull(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		need.Missing(t, "mount", err)
	}
	defer syscall.Unmount(dir, 0)
	ws := tool.Workspace{Dir: dir}
	put(t, filepath.Join(dir, "f"), "old\n")
	out := use(t, tool.Write(ws), map[string]any{"path": "f", "contents": strings.Repeat("x", 1<<20)})
	if !out.Error || !strings.Contains(out.Text, "the disk is full") {
		t.Errorf("got %q", out.Text)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != "old\n" {
		t.Errorf("the old contents became %q (err %v)", got, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".aloft-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPathsWithInvalidUTF8(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "\xff")
	put(t, filepath.Join(dir, "f"), "x\n")
	ws := tool.Workspace{Dir: dir}
	for _, c := range []struct {
		hand tool.Tool
		args map[string]any
	}{
		{tool.Read(ws), map[string]any{"path": "f"}},
		{tool.Write(ws), map[string]any{"path": "f", "contents": "x\ny\n"}},
		{tool.StrReplace(ws), map[string]any{"path": "f", "old_string": "y", "new_string": "z"}},
		{tool.Glob(ws), map[string]any{"glob_pattern": "*"}},
		{tool.Grep(ws), map[string]any{"pattern": "x"}},
		{tool.Shell(session(t, dir), nil), map[string]any{"command": "pwd"}},
		{tool.Delete(ws), map[string]any{"path": "f"}},
	} {
		if out := use(t, c.hand, c.args); out.Error {
			t.Errorf("%s: %s", c.hand.Name, out.Text)
		}
	}
	if out := use(t, tool.Read(ws), map[string]any{"path": "f"}); !out.Error {
		t.Errorf("after Delete: %q", out.Text)
	}
}
