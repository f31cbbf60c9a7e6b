package editor_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"aloft/internal/fault"
	"aloft/internal/guest/editor"
)

// TestFind looks for builds of an editor's server below the home folder.
func TestFind(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	program := filepath.Join(home, "servers/b1/server")
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	s := editor.New([]editor.Program{{Paths: []string{"~/servers/%s/server"}}}, home, nil, slog.New(slog.DiscardHandler))
	defer s.Close()
	if err := os.WriteFile(program, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Find("b1"); !fault.Is(err, fault.KindNotFound) {
		t.Errorf("a file that cannot be run: %v", err)
	}
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, build := range []string{"b1", ""} {
		if got, _, err := s.Find(build); got != program || err != nil {
			t.Errorf("build %q: %q, %v", build, got, err)
		}
	}
	if _, _, err := s.Find("b2"); !fault.Is(err, fault.KindNotFound) {
		t.Errorf("another build: %v", err)
	}
	if _, err := s.Start(t.Context(), 70_000); !fault.Is(err, fault.KindInvalid) {
		t.Errorf("an invalid port: %v", err)
	}
}
