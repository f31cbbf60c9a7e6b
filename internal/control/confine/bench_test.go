package confine_test

import (
	"testing"

	"aloft/internal/control/confine"
	"aloft/internal/gitcmd"
	"aloft/internal/need"
)

// BenchmarkGit compares a git command in a jail with a plain one.
func BenchmarkGit(b *testing.B) {
	need.Root(b)
	h, err := confine.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	b.Run("Plain", func(b *testing.B) {
		for b.Loop() {
			if err := (gitcmd.Git{}.Command(b.Context(), "version").Run()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Confined", func(b *testing.B) {
		for b.Loop() {
			cmd := gitcmd.Git{}.Command(b.Context(), "version")
			release, err := h.Start(cmd, confine.Jail{User: confine.FirstUser, Write: []string{dir}})
			if err != nil {
				b.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				b.Fatal(err)
			}
			release()
		}
	})
}
