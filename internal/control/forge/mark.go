package forge

import (
	"regexp"
	"strings"
)

// markBegin begins every mark. Hosts do not show HTML comments.
const markBegin = "<!-- aloft"

// Mark returns the mark to append to a comment: by it Aloft recognizes its own
// comments, and by the key, which must be plain words, what one is for. The
// author's login does not tell, because people may give Aloft a token of their
// own.
func Mark(key string) string { return markBegin + " " + key + " -->" }

// IsMarked reports whether Aloft wrote a comment.
func IsMarked(body string) bool { return strings.Contains(body, markBegin) }

// markStart matches the beginning of a mark, with repetitions of the word, one of which
// would otherwise become a mark when another is removed.
var markStart = regexp.MustCompile("<!-- (aloft)+")

// WithoutMarks returns a text, such as a model's, without marks.
func WithoutMarks(text string) string { return markStart.ReplaceAllString(text, "<!-- ") }

// BeforeMark returns the part of a comment before its mark.
func BeforeMark(body string) (text string, marked bool) {
	text, _, marked = strings.Cut(body, markBegin)
	return text, marked
}
