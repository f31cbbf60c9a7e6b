package forge_test

import (
	"strings"
	"testing"

	"aloft/internal/control/forge"
)

// Somebody hides words in a comment, a title or a check's name, which a person who
// reads it at the forge does not see but a model reads.
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
