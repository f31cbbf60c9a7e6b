// Package vnctest starts real X displays for tests of the guest and of the
// control plane. The product does not use it.
package vnctest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/need"
)

// Server is a running Xtigervnc, which is stopped at the end of the test.
type Server struct {
	Display string // value for the variable DISPLAY
	Socket  string // path of the unix socket that serves VNC, without a password
}

// Start starts a display with the given size in pixels and 24 bits per pixel,
// and returns once the display accepts connections.
func Start(t testing.TB, width, height int) Server {
	t.Helper()
	program := need.Command(t, "Xtigervnc")
	path := filepath.Join(t.TempDir(), "vnc")
	said, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = said.Close() }()
	var log bytes.Buffer
	// The test's clean-up stops the server, after processes that were started later.
	cmd := exec.Command(program, "-displayfd", "3", "-rfbport=-1", "-rfbunixpath="+path, "-SecurityTypes", "None",
		"-geometry", fmt.Sprintf("%dx%d", width, height), "-depth", "24")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{says}, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	_ = says.Close()
	number, err := io.ReadAll(io.LimitReader(said, 16)) // the server closes the pipe once it is ready
	if err != nil || len(number) == 0 {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // wait so that the log is complete
		t.Fatalf("no display: %v\n%s", err, &log)
	}
	return Server{Display: ":" + strings.TrimSpace(string(number)), Socket: path}
}
