package buildah

import (
	"path/filepath"
	"testing"

	"aloft/internal/control/dockerfile/dockerfiletest"
	"aloft/internal/need"
)

func TestEngine(t *testing.T) {
	need.Root(t)
	runtime, err := filepath.Abs("../../../../.bin/runc")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "runc", runtime)
	e, err := New(Config{Path: need.Command(t, "buildah"), Runtime: runtime, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	dockerfiletest.Run(t, e, dockerfiletest.Options{})
}
