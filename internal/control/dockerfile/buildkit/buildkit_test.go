//go:build engines

package buildkit

import (
	"path/filepath"
	"testing"

	"aloft/internal/control/dockerfile/dockerfiletest"
	"aloft/internal/need"
)

func TestEngine(t *testing.T) {
	need.Root(t)
	bin, err := filepath.Abs("../../../../.bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"buildkitd", "buildctl", "runc"} {
		need.File(t, "buildkit", filepath.Join(bin, name))
	}
	e, err := New(Config{Buildctl: filepath.Join(bin, "buildctl"), Buildkitd: filepath.Join(bin, "buildkitd"), Runtime: filepath.Join(bin, "runc"), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	dockerfiletest.Run(t, e, dockerfiletest.Options{})
}
