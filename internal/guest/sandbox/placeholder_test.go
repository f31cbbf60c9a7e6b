package sandbox

import (
	"errors"
	"path/filepath"
	"testing"
)

// TestPlaceholderWithoutFolder checks that the plan is made again if the folder
// of a placeholder, which another sandbox had created, has disappeared before
// the placeholder is created.
func TestPlaceholderWithoutFolder(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "info", "attributes")
	if _, err := holdPlaceholders(Layout{Placeholders: []Placeholder{{Path: gone, Kind: File}}}); !errors.Is(err, errMoved) {
		t.Errorf("got %v, want %v", err, errMoved)
	}
}
