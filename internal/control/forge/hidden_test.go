package forge_test

import (
	"strings"
	"testing"

	"aloft/internal/control/forge"
)

// Someone hides words in a comment, title or check name. People do not see them
// on the forge, but a model reads them.
func TestTextHidesNothing(t *testing.T) {
	const hidden = "a\U000e0069\U000e0067\u200b\u2060\u202e\ufeff\u00ad\U000e0101b"
	if got := forge.Line(hidden, 100); got != "ab" {
		t.Errorf("Line: %+q", got)
	}
	var b strings.Builder
	forge.Quote(&b, hidden+"\n\u200b"+hidden)
	if got := b.String(); got != "> ab\n> ab\n" {
		t.Errorf("Quote: %+q", got)
	}
	if got, emoji := forge.Line("👩\u200d💻 نمی\u200cخواهم", 100), "👩\u200d💻 نمی\u200cخواهم"; got != emoji {
		t.Errorf("Line removes joiners: %+q", got)
	}
}
