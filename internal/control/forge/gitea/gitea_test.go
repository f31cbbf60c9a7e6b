package gitea

import (
	"testing"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
)

func at(t testing.TB, s *forgetest.Server, token string) forge.Forge {
	t.Helper()
	f, err := New(Options{API: s.API, Tokens: forge.Token(token)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestGitea(t *testing.T) {
	forgetest.Run(t, func(t *testing.T) forgetest.Host { return forgetest.NewGitea(t).Host(t, at) })
}
