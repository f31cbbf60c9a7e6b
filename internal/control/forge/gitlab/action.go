package gitlab

import (
	"regexp"
	"strings"

	"aloft/internal/control/forge"
)

// GitLab executes lines such as /merge and /approve in comments and descriptions as
// quick actions, with the rights of the author. It ignores those in code, but its
// idea of code differs from Markdown's: the first fence ends code of a longer one.
var (
	action  = regexp.MustCompile(`(?im)^(\s*)/([a-z][a-z0-9_]*(?:[^/a-z0-9_]|$))`)
	escaped = regexp.MustCompile(`(?im)^(\s*)\\/([a-z][a-z0-9_]*(?:[^/a-z0-9_]|$))`)
	returns = strings.NewReplacer("\r\n", "\n", "\r", "\n") // GitLab deletes \r, which could join two parts of a name
)

// hasActions reports whether GitLab could find a quick action in the text.
func hasActions(text string) bool { return action.MatchString(returns.Replace(text)) }

// inert returns the text to send for a comment or a description. A backslash before
// the slash keeps GitLab from executing a line; Markdown shows it only in code.
// Paths such as /usr/bin are left as they are.
func inert(text string) string {
	text = action.ReplaceAllString(returns.Replace(forge.Cut(text, maxBody)), `$1\/$2`)
	return forge.Cut(text, maxBody)
}

// asWritten returns a text of GitLab without the backslashes of inert.
func asWritten(text string) string { return escaped.ReplaceAllString(text, "$1/$2") }
