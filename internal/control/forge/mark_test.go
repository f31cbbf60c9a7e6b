package forge_test

import (
	"strings"
	"testing"

	"aloft/internal/control/forge"
)

// A model writes text that would become a mark if a mark inside it were removed
// once.
func TestWithoutMarksLeavesNone(t *testing.T) {
	mark := forge.Mark("key")
	begin, _, _ := strings.Cut(mark, " key")
	word := strings.TrimPrefix(begin, "<!-- ")
	for _, text := range []string{mark, begin + word + " key -->", begin + word + word + " key -->", "<!-- " + begin + word, "<!-" + begin + begin + word} {
		if got := forge.WithoutMarks(text); forge.IsMarked(got) {
			t.Errorf("%q becomes %q, which is marked", text, got)
		}
	}
}
