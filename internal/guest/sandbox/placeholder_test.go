package sandbox

import (
	"errors"
	"path/filepath"
	"testing"
)

// A folder that another sandbox made for itself may be gone when a placeholder
// in it is created: then the plan is made again.
func TestPlaceholderWithoutFolder(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "info", "attributes")
	if _, err := holdPlaceholders(Layout{Placeholders: []Placeholder{{Path: gone, Kind: File}}}); !errors.Is(err, errMoved) {
		t.Errorf("got %v, want %v", err, errMoved)
	}
}
