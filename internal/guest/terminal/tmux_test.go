package terminal

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"aloft/internal/fault"
	"aloft/internal/need"
	"aloft/internal/terminal"
)

// newTmux returns a Tmux with its own tmux server.
func newTmux(t *testing.T) *Tmux {
	t.Helper()
	need.Command(t, "tmux")
	dir, err := os.MkdirTemp("", "tmux") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	tm := &Tmux{Socket: filepath.Join(dir, "s", "sock"), Dir: dir, Environ: func() []string {
		return append(os.Environ(), "HOME="+dir, "PS1=> ", "SHELL=/bin/sh", "ENV=", "HELD=by-the-server")
	}}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", tm.Socket, "kill-server").Run() // a test may have ended the server
		_ = os.RemoveAll(dir)
	})
	return tm
}

// shows waits until the terminal's text contains the text what.
func shows(t *testing.T, tm *Tmux, name, what string) string {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; <-tick.C {
		text, _, err := tm.Read(t.Context(), name, -1, false)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, what) {
			return text
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q shows %q, want %q", name, text, what)
		}
	}
}

func TestTerminals(t *testing.T) {
	t.Parallel()
	tm := newTmux(t)
	ctx := t.Context()
	if list, err := tm.List(ctx); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	made, created, err := tm.Create(ctx, terminal.New{Name: "build", Columns: 90, Rows: 20, Env: map[string]string{"GIVEN": "yes;"}})
	if err != nil || !created || made.Name != "build" || made.Columns != 90 || made.PID == 0 || made.Dead {
		t.Fatalf("%+v, %v, %v", made, created, err)
	}
	if status, err := tm.run(ctx, maxSaid, "show-options", "-v", "-t", "=build:", "status"); err != nil || strings.TrimSpace(string(status)) != "off" {
		t.Errorf("the status line is %q, %v", status, err)
	}
	if _, again, err := tm.Create(ctx, terminal.New{Name: "build"}); err != nil || again {
		t.Errorf("%v, %v", again, err)
	}
	if other, _, err := tm.Create(ctx, terminal.New{}); err != nil || other.Name != "term-1" {
		t.Errorf("%+v, %v", other, err)
	}
	// Text that looks like a key's name, a flag or the end of a tmux command is sent as text.
	for _, text := range []string{"echo Enter $GIVEN-$HELD;", `echo '-l' "\;"; echo "end;`, `";`} {
		if err := tm.Send(ctx, "build", []Keys{{Text: text}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tm.Send(ctx, "build", []Keys{{Key: "C-u"}, {Text: "echo a=$((40+2)) ä€;"}, {Key: "Enter"}}); err != nil {
		t.Fatal(err)
	}
	shows(t, tm, "build", "a=42 ä€")
	long := strings.Repeat("é", 1500)
	if err := tm.Send(ctx, "build", []Keys{{Text: "printf %s '" + long + "' | wc -c; echo Enter $GIVEN-$HELD;"}, {Key: "Enter"}}); err != nil {
		t.Fatal(err)
	}
	shows(t, tm, "build", "3000") // a terminal's line is limited to 4095 bytes
	shows(t, tm, "build", "Enter yes;-by-the-server")
	// The text includes the scrollback.
	if err := tm.Send(ctx, "build", []Keys{{Text: "seq 1 200; echo do''ne"}, {Key: "Enter"}}); err != nil {
		t.Fatal(err)
	}
	if text := shows(t, tm, "build", "done"); !strings.Contains(text, "\n7\n8\n") {
		t.Error("history is lost")
	}
	if text, _, err := tm.Read(ctx, "build", 0, false); err != nil || strings.Contains(text, "\n7\n8\n") || !strings.Contains(text, "200") {
		t.Errorf("%q, %v", text, err)
	}
	if col, row, err := tm.Cursor(ctx, "build"); err != nil || row == 0 {
		t.Errorf("%d, %d, %v", col, row, err)
	}
	// The status of a command that has ended can be read.
	if _, _, err := tm.Create(ctx, terminal.New{Name: "job", Command: "echo result; sleep 0.3; exit 3"}); err != nil {
		t.Fatal(err)
	}
	shows(t, tm, "job", "result")
	// On a busy host, tmux 3.3 does not always get a child's exit status. The status is then
	// unknown, but never wrong.
	if err := wait(ctx, func() bool {
		j, err := tm.Find(ctx, "job")
		return err == nil && j.Dead && (j.ExitCode == nil || *j.ExitCode == 3)
	}); err != nil {
		j, err := tm.Find(ctx, "job")
		t.Errorf("%+v, %v", j, err)
	}
	for name, err := range map[string]error{
		"read": func() error { _, _, err := tm.Read(ctx, "none", 0, false); return err }(),
		"send": tm.Send(ctx, "buil", []Keys{{Text: "x"}}), // another terminal's name begins with these letters
		"end":  tm.End(ctx, "none"),
	} {
		if !fault.Is(err, fault.KindNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"key":  tm.Send(ctx, "build", []Keys{{Key: "rm -rf"}}),
		"name": func() error { _, _, err := tm.Create(ctx, terminal.New{Name: "a:b"}); return err }(),
		"dir":  func() error { _, _, err := tm.Create(ctx, terminal.New{Dir: "/no/such"}); return err }(),
		"env":  func() error { _, _, err := tm.Create(ctx, terminal.New{Env: map[string]string{"a b": ""}}); return err }(),
	} {
		if !fault.Is(err, fault.KindInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := tm.End(ctx, "build"); err != nil {
		t.Error(err)
	}
	if list, err := tm.List(ctx); err != nil || len(list) != 2 || list[0].Name != "job" {
		t.Errorf("%+v, %v", list, err)
	}
}

func wait(ctx context.Context, until func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !until() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// TestSharedTerminal checks that two viewers share one terminal, which outlives
// both and the Host.
func TestSharedTerminal(t *testing.T) {
	t.Parallel()
	tm := newTmux(t)
	d := newDesk(t, Config{Terminals: tm})
	a, b := d.connect(t), d.connect(t)
	for _, p := range []*person{a, b} {
		p.say(request{Type: "terminal", Terminal: "both", Columns: 80, Rows: 24})
		p.want("attached")
	}
	a.typeIn("echo seen-by-$((1+1))\r")
	b.until("seen-by-2")
	if err := wait(t.Context(), func() bool { f, err := tm.Find(t.Context(), "both"); return err == nil && f.Attached == 2 }); err != nil {
		t.Error("not two are attached")
	}
	_ = a.ws.CloseNow()
	if err := wait(t.Context(), func() bool { f, err := tm.Find(t.Context(), "both"); return err == nil && f.Attached == 1 }); err != nil {
		t.Error("who left is still attached")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	shows(t, tm, "both", "seen-by-2")
}

// TestKeptServer checks that if another process supervises the tmux server, the
// Host waits for that server and never starts one.
func TestKeptServer(t *testing.T) {
	t.Parallel()
	tm := newTmux(t)
	tm.Kept = true
	if err := os.MkdirAll(filepath.Dir(tm.Socket), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(context.Canceled) })
	if _, _, err := tm.Create(ctx, terminal.New{Name: "x"}); err == nil {
		t.Error("a server was made")
	}
	made := make(chan error)
	go func() {
		_, _, err := tm.Create(t.Context(), terminal.New{Name: "x"})
		made <- err
	}()
	server := exec.Command("tmux", "-D", "-S", tm.Socket)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	if err := <-made; err != nil {
		t.Error(err)
	}
}

func TestNoTmux(t *testing.T) {
	t.Parallel()
	tm := &Tmux{Program: "no-such-tmux", Socket: filepath.Join(t.TempDir(), "s")}
	if _, err := tm.List(t.Context()); !fault.Is(err, fault.KindNotImplemented) {
		t.Error(err)
	}
}

func FuzzParseList(f *testing.F) {
	f.Add("a\t1\t2\t1\t80\t24\t77\t1\t3\tsh\t/x\ty\nb\t1\t2\t1\t80\t24\t77\t\t\t\t\n")
	f.Fuzz(func(t *testing.T, out string) {
		for _, term := range parseList([]byte(out)) {
			if term.Name == "" || !utf8.ValidString(term.Dir) || strings.Contains(term.Command, "\t") {
				t.Errorf("%+v", term)
			}
		}
	})
}

func FuzzPieces(f *testing.F) {
	f.Add("äöü€x", 5)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = 4 + abs(most)%64
		list := pieces(text, most)
		if strings.Join(list, "") != text {
			t.Error("something is lost")
		}
		for _, p := range list {
			if len(p) > most || p == "" || utf8.ValidString(text) && !utf8.ValidString(p) {
				t.Errorf("%q", p)
			}
		}
	})
}
