package agents

import (
	"errors"
	"testing"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// TestFindRequest checks by which texts a pending request is found.
func TestFindRequest(t *testing.T) {
	all := []client.Approval{{ID: "apr-5a38"}, {ID: "apr-5a381"}, {ID: "apr-67a8"}}
	for id, want := range map[string]string{
		"apr-67a8": "apr-67a8", "apr-67": "apr-67a8", "6": "apr-67a8", "apr-5a38": "apr-5a38", "5a381": "apr-5a381",
	} {
		if q, err := findRequest(all, id); err != nil || q.ID != want {
			t.Errorf("%q finds %q, %v; want %q", id, q.ID, err, want)
		}
	}
	for id, want := range map[string]string{"5a": "ambiguous", "": "not_found", "apr-": "not_found", "7a8": "not_found"} {
		_, err := findRequest(all, id)
		if p, ok := errors.AsType[*cli.Problem](err); !ok || p.Code != want {
			t.Errorf("%q: %v, want %s", id, err, want)
		}
	}
}
