package build

import (
	"testing"

	"aloft/internal/policy"
)

// TestPulls checks that a build pulls the images of its own repositories only,
// however their URLs are written.
func TestPulls(t *testing.T) {
	g := pulls("bld-1", []string{"https://git.test/team/app.git"}, policy.Network{Mode: policy.AllowAll})
	for url, want := range map[string]bool{
		"https://git.test/team/app": true, "https://git.test/team/app.git": true,
		"https://git.test/team/other": false, "https://other.test/team/app": false, "not a URL": false,
	} {
		if err := g.May(t.Context(), url); (err == nil) != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}
