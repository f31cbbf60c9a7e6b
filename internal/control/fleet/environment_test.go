package fleet

import (
	"slices"
	"strings"
	"testing"

	"aloft/internal/environment"
)

func TestTerminalNames(t *testing.T) {
	var terminals []environment.Terminal
	for _, name := range []string{"Run Next.js", "run:it", "Run-Next-js", "日本", "", "-x-", strings.Repeat("a", 100), strings.Repeat("a", 101)} {
		terminals = append(terminals, environment.Terminal{Name: name})
	}
	want := []string{"Run-Next-js", "run-it", "Run-Next-js-2", "terminal", "terminal-2", "x", strings.Repeat("a", 60), strings.Repeat("a", 60) + "-2"}
	if got := terminalNames(terminals); !slices.Equal(got, want) {
		t.Errorf("names are %q; want %q", got, want)
	}
}
