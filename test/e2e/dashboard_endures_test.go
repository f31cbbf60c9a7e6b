package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"aloft/internal/need"
)

// The dashboard survives a page reload during a run, two windows on one agent,
// and a killed and restarted server, and its notification answers a request.
// web/test/endures.ts tests this with a server of its own.
func TestDashboardEndures(t *testing.T) {
	t.Parallel()
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
