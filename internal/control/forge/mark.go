package forge

import (
	"regexp"
	"strings"
)

// markBegin begins every mark. It is an HTML comment, which hosts do not
// display.
const markBegin = "<!-- aloft"

// Mark returns the mark to append to a comment: Aloft recognizes its own
// comments by the mark, and their purpose by the key, which must be plain
// words. The author's login does not identify them, because people may give
// Aloft their own token.
func Mark(key string) string { return markBegin + " " + key + " -->" }

// IsMarked reports whether Aloft wrote a comment.
func IsMarked(body string) bool { return strings.Contains(body, markBegin) }

// markStart matches the beginning of a mark. It also matches a repeated word,
// because removing one repetition would otherwise leave a mark.
var markStart = regexp.MustCompile("<!-- (aloft)+")

// WithoutMarks returns a text, such as a model's, without marks.
func WithoutMarks(text string) string { return markStart.ReplaceAllString(text, "<!-- ") }

// BeforeMark returns the part of a comment before its mark.
func BeforeMark(body string) (text string, marked bool) {
	text, _, marked = strings.Cut(body, markBegin)
	return text, marked
}
