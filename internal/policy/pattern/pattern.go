// Package pattern matches patterns in allow lists of programs, MCP servers and their
// tools.
package pattern

import "strings"

// Match reports whether s matches the pattern, in which only * is special: it
// matches any text, including the empty one. Its time is linear in s for each
// *.
func Match(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(s, part)
		if !found {
			return false
		}
		s = after
	}
	return strings.HasSuffix(s, parts[last])
}
