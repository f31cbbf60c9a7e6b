package pty

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCopyHasTheLastWords checks that all output of a program is read, even if
// the reader is late and a process that the program has left behind keeps the
// terminal open.
func TestCopyHasTheLastWords(t *testing.T) {
	cmd := exec.Command("sh", "-c", "trap '' HUP; sleep 1000 & echo $!; seq 300; echo over")
	end, err := Start(cmd, Size{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	close(ended)
	var said strings.Builder
	Copy(&said, end, ended)
	lines := strings.Fields(said.String())
	left, err := strconv.Atoi(lines[0])
	if err != nil {
		t.Fatalf("%.200q, %v", said.String(), err)
	}
	if err := syscall.Kill(left, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if len(lines) != 302 || lines[300] != "300" || lines[301] != "over" {
		t.Errorf("%d lines were read, the last of them %s", len(lines), lines[len(lines)-1])
	}
}

// TestEndsAreGivenUp checks that readers do not wait for a process that
// outlives its command and keeps the terminal open.
func TestEndsAreGivenUp(t *testing.T) {
	cmd := exec.Command("sh", "-c", "trap '' HUP; sleep 1000 & echo $!; stty size")
	end, err := Start(cmd, Size{Rows: 7, Cols: 99})
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(end)
	line := func() string {
		t.Helper()
		s, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(s)
	}
	left, err := strconv.Atoi(line())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(left, syscall.SIGKILL) })
	if size := line(); size != "7 99" {
		t.Errorf("the terminal has %s", size)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := Resize(end, Size{Rows: 8, Cols: 100}); err != nil { // which leaves it as it is
		t.Fatal(err)
	}
	if err := end.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := out.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past its deadline a read ends with %v", err)
	}
	if err := end.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	reading := make(chan struct{})
	go func() {
		close(reading)
		_, err := end.Read(make([]byte, 1))
		ended <- err
	}()
	<-reading
	if err := end.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed end's read ends with %v", err)
	}
}
