package desktop

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/fault"
	"aloft/internal/need"
)

func TestWake(t *testing.T) {
	if err := Wake(t.Context(), ""); fault.Of(err).Code != CodeMissing || !strings.Contains(fault.Of(err).Advice, "tigervnc") {
		t.Errorf("without a display: %v", err)
	}
	for _, display := range []string{"elsewhere:1", "1", ":", ":-1", ":1000000", ":x.0", ":1/../x"} {
		if err := Wake(t.Context(), display); !fault.Is(err, fault.KindInvalid) {
			t.Errorf("%s: %v", display, err)
		}
	}
	if err := Wake(t.Context(), ":65000"); fault.Of(err).Code != CodeMissing {
		t.Errorf("where nobody listens: %v", err)
	}

	server := need.Command(t, "Xtigervnc")
	said, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), server, "-displayfd", "3", "-rfbport=-1", "-rfbunixpath="+filepath.Join(t.TempDir(), "vnc"), "-SecurityTypes", "None")
	cmd.ExtraFiles = []*os.File{says}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	_ = says.Close()
	b, err := io.ReadAll(io.LimitReader(said, 16)) // it closes it when it is there
	if err != nil {
		t.Fatal(err)
	}
	display := ":" + strings.TrimSpace(string(b))
	for _, name := range []string{display, display + ".0", "unix" + display} {
		if err := Wake(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server that hangs is waited for as long as the caller wants, and one that
// ends is told of.
func TestWakeOfWhoDoesNotAnswer(t *testing.T) {
	l, err := net.Listen("unix", "@"+Socket(64_999))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Wake(ctx, ":64999"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that hangs: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 2 { // the first of them is the one that was left
			if conn, err := l.Accept(); err == nil {
				_ = conn.Close()
			}
		}
	}()
	if err := Wake(t.Context(), ":64999"); !fault.Is(err, fault.KindUnavailable) {
		t.Errorf("one that ends: %v", err)
	}
	<-ended
}

func TestScreen(t *testing.T) {
	for _, c := range []struct{ resolution, dots, size, depth, dpi string }{
		{"", "", "1920x1200", "24", "96"},
		{"1280x800", "120", "1280x800", "24", "120"},
		{"2560x1440x16", "96.5", "2560x1440", "16", "96"},
		{"800x600x32", "0", "800x600", "24", "96"},
		{"99999x1", "-1", "1920x1200", "24", "96"},
		{"800x600x24;reboot", "96\n", "1920x1200", "24", "96"},
	} {
		env := append(Environ(""), "VNC_RESOLUTION="+c.resolution, "VNC_DPI="+c.dots)
		command := VNC(env).Command
		for option, want := range map[string]string{"-geometry": c.size, "-depth": c.depth, "-dpi": c.dpi} {
			if at := slices.Index(command, option); at < 0 || command[at+1] != want {
				t.Errorf("%+v: %v", c, command)
			}
		}
	}
}
