package host

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"aloft/internal/cli"
)

// TestBuildProgress checks that a build without a terminal prints a line
// immediately and for every step, but not for every package.
func TestBuildProgress(t *testing.T) {
	var out, notes bytes.Buffer
	p := &buildProgress{out: cli.New(&out, &notes, cli.Options{}), began: time.Now()}
	p.note("building local:base")
	if !strings.Contains(notes.String(), "building local:base") {
		t.Errorf("it begins with %q", notes.String())
	}
	p.add("I: downloading packages with apt...")
	for range 100 {
		p.add("Get:1 http://deb.example.com bookworm/main amd64 git")
	}
	p.add("I: installing packages...")
	got := strings.Split(strings.TrimSpace(notes.String()), "\n")
	if len(got) != 3 || !strings.HasSuffix(got[1], "  downloading packages with apt...") || !strings.HasSuffix(got[2], "  installing packages...") {
		t.Errorf("it printed %q", got)
	}
	p.shown = time.Now().Add(-detailEvery)
	p.add("Get:2 http://deb.example.com bookworm/main amd64 gdb")
	if !strings.HasSuffix(strings.TrimSpace(notes.String()), "gdb") || out.Len() > 0 {
		t.Errorf("a long step is silent: %q, %q", notes.String(), out.String())
	}
	if len(p.last.lines) != 20 {
		t.Errorf("%d lines are kept for an error", len(p.last.lines))
	}
}
