package probe

import (
	"strings"
	"testing"

	"aloft/internal/need"
)

// TestGit checks that the doctor command reports that git is confined, or why
// it is not.
func TestGit(t *testing.T) {
	need.Command(t, "git")
	check, err := Git()
	if err != nil || check.OK == strings.Contains(check.Detail, "the server's own user") || check.OK != (check.Fix == "") {
		t.Errorf("%+v, %v", check, err)
	}
	t.Setenv("PATH", t.TempDir())
	if check, err = Git(); err != nil || check.OK || !check.Required || check.Fix == "" {
		t.Errorf("without git: %+v, %v", check, err)
	}
}
