// Package vnctest starts real displays for tests of either wing. It has no part
// in the product.
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

// Server is an Xtigervnc of its own, which ends with the test.
type Server struct {
	Display string // as the variable DISPLAY
	Socket  string // the path of the unix socket on which it speaks VNC, without a password
}

// Start starts a display of that size in pixels and 24 bits, and returns when it
// takes connections.
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
	// Clean-up ends it, after what began later.
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
	number, err := io.ReadAll(io.LimitReader(said, 16)) // it closes it when it is there
	if err != nil || len(number) == 0 {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // so that the log is whole
		t.Fatalf("no display: %v\n%s", err, &log)
	}
	return Server{Display: ":" + strings.TrimSpace(string(number)), Socket: path}
}
