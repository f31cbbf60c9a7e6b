//go:build engines

package main

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"aloft/internal/need"
)

// TestSnapshotsMoveByS3 moves a snapshot through versitygw, which implements S3
// and, like AWS, checks every signature.
func TestSnapshotsMoveByS3(t *testing.T) {
	need.Root(t)
	program, err := filepath.Abs("../../.bin/versitygw")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "versitygw", program)
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "backups"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "a-key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "its-secret")
	address := s3(t, program, root)
	snapshotsMove(t, "s3://backups?region=us-east-1&use_path_style=true&endpoint=http://"+address)
	if left, err := filepath.Glob(filepath.Join(root, "backups", "snapshots", "*.json")); err != nil || len(left) != 1 {
		t.Errorf("the bucket has the snapshots %v, %v", left, err)
	}
}

// s3 starts versitygw with the folder root, and returns its address once it
// responds.
func s3(t *testing.T, program, root string) string {
	t.Helper()
	for range 5 { // another process may take the port first
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		_ = l.Close()
		var said bytes.Buffer
		cmd := exec.Command(program, "--access", "a-key", "--secret", "its-secret", "--region", "us-east-1", "--port", address, "--health", "/health", "posix", root)
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(ended)
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			<-ended
		})
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for up := true; up; {
			if resp, err := http.Get("http://" + address + "/health"); err == nil {
				_ = resp.Body.Close()
				return address
			}
			select {
			case <-ended:
				t.Logf("versitygw: %s", said.String())
				up = false
			case <-tick.C:
			}
		}
	}
	t.Fatal("no S3 server starts")
	return ""
}
