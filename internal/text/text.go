// Package text shortens texts, for error messages, lists and limits.
package text

import "strings"

// Head returns the beginning of s in at most n bytes, as valid UTF-8: it omits invalid
// bytes, and a character that would be split. A negative n counts as 0.
func Head(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), max(n, 0))], "") }

// Abbreviate returns s if it has at most n bytes. Otherwise it returns its [Head],
// followed by mark, which does not count towards n.
func Abbreviate(s string, n int, mark string) string {
	if len(s) <= n {
		return s
	}
	return Head(s, n) + mark
}
