package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// scripted returns a configuration whose model follows the script.
func scripted(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("models:\n  - id: scripted\n    provider: scripted\n    script: %s\n", file)
}
