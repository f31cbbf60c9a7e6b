package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"aloft/internal/need"
)

// A reload in the middle, two windows on one agent, the server killed and back,
// and a notification that answers: web/test/endures.ts does it, with a server of
// its own, which it kills.
func TestDashboardEndures(t *testing.T) {
	need.Root(t)
	binary(t)
	need.Command(t, "chromium")
	npm := need.Command(t, "npm")
	web, err := filepath.Abs("../../web")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "the dashboard's packages", filepath.Join(web, "node_modules", ".package-lock.json"))
	if out, err := exec.CommandContext(t.Context(), npm, "run", "--silent", "--prefix", web, "endures").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
