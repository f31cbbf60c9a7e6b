package cli

import (
	"fmt"
	"strings"
	"unicode"
)

// Exact returns text on which a person bases a decision, such as a command that
// waits for approval, or a diff. Unlike [Clean], it hides nothing: it replaces
// each character that controls the terminal, reorders text or shows nothing by its
// name, as in ⟨U+001B⟩. It keeps tabs and line ends. The dashboard shows such text in the
// same way.
func Exact(s string) string {
	return exact(strings.ReplaceAll(s, "\r\n", "\n"), "\n\t")
}

// ExactLine is Exact for text on one line, such as a path: it also names tabs and
// line ends.
func ExactLine(s string) string { return exact(s, "") }

// exact names the hidden characters of s, except those in keep.
func exact(s, keep string) string {
	var out strings.Builder
	for _, r := range s { // invalid UTF-8 becomes U+FFFD
		if isHidden(r) && !strings.ContainsRune(keep, r) {
			fmt.Fprintf(&out, "⟨U+%04X⟩", r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// hiddenRunes are characters that show nothing, besides controls, format
// characters, and the supplementary plane of tags and selectors of variants.
const hiddenRunes = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u2028\u2029\u2065\u3164\uffa0"

// shownRunes are format characters that can be seen, and joiners, which some scripts
// and emoji need.
const shownRunes = "\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"

// isHidden reports whether r controls the terminal, reorders text or shows nothing.
func isHidden(r rune) bool {
	switch {
	case strings.ContainsRune(shownRunes, r):
		return false
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return strings.ContainsRune(hiddenRunes, r)
}
