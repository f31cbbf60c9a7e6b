package cli

import (
	"bytes"
	"testing"

	"aloft/internal/client"
)

func TestBugfix(t *testing.T) {
	var b bytes.Buffer
	o := &Output{out: &b, err: &b}
	o.Bugfix(client.Bugfix{ID: "B-1", Title: "it leaks", Verdict: "fixed", Explanation: "closed the file,\nand a test holds it"})
	o.Bugfix(client.Bugfix{ID: "B-2\x1b[2J", Verdict: "not_a_bug"})
	o.Bugfix(client.Bugfix{ID: "B-3", Verdict: "not_fixed"})
	const want = "  + bug B-1 fixed, as the agent reports: it leaks\n      closed the file, and a test holds it\n  ! bug B-2 not a bug, as the agent reports\n  x bug B-3 not fixed\n"
	if b.String() != want {
		t.Errorf("got %q", b.String())
	}
}
