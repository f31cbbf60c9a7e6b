package build

import (
	"strings"
	"testing"
	"time"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// TestFailedBuild checks that a failed build's machine accepts visitors, stops
// after the last visitor, and is removed when it uses too much disk space.
func TestFailedBuild(t *testing.T) {
	s, git := opened(t, t.TempDir(), func(c *Config) { c.FailedBuildsFor = time.Hour }), gittest.New(t)
	url := git.Repo("r", map[string]string{"README": "x"})
	committed(git, "r", "head -c 2M /dev/urandom > /tmp/big; exit 3")
	r := s.built(t, url, environment.Failed)
	if err := s.builder.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err := s.builder.Enter(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.builder.Enter(t.Context(), r.ID)
	if err != nil || second.Conn != first.Conn {
		t.Errorf("who comes second is elsewhere: %v", err)
	}
	var out strings.Builder
	if _, err := first.Conn.RunCommand(t.Context(), "stat -c %s /tmp/big", time.Minute, &out); err != nil || out.String() != "2097152\n" {
		t.Errorf("in the failed machine: %q, %v", &out, err)
	}
	// A machine that fills the disk is stopped even while it has visitors. They
	// can connect again.
	if ours, err := s.builder.Stop(t.Context(), machineOf(r.ID), fault.Exhausted("the disk is full")); !ours || err != nil {
		t.Errorf("stopped for its disk: %v, %v", ours, err)
	}
	<-first.Conn.Done()
	third, err := s.builder.Enter(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if _, err := third.Conn.RunCommand(t.Context(), "stat -c %s /tmp/big", time.Minute, &out); err != nil || out.String() != "2097152\n" {
		t.Errorf("in the failed machine again: %q, %v", &out, err)
	}
	s.builder.FailedBuildsBytes = 1 << 20
	if err := s.builder.tidy(t.Context()); err != nil { // a machine with a visitor is not removed
		t.Fatal(err)
	}
	for _, v := range []*Visit{first, second, third} {
		select {
		case <-third.Conn.Done():
			t.Error("the failed machine was removed while a visitor was in it")
		default:
		}
		_, _ = v.Close(), v.Close() // closing the visit twice counts once
	}
	select {
	case <-third.Conn.Done():
	default:
		t.Error("the failed machine still runs after all visitors have left")
	}
	if err := s.builder.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.builder.Enter(t.Context(), r.ID); fault.Of(err).Code != "wreck_gone" {
		t.Errorf("a failed machine that takes too much of the disk: %v", err)
	}
	committed(git, "r", "true")
	if _, err := s.builder.Enter(t.Context(), s.built(t, url, environment.Succeeded).ID); fault.Of(err).Code != "no_wreck" {
		t.Errorf("into a build that succeeded: %v", err)
	}
}
