package text

import "bytes"

// MaxNesting is the nesting of objects and arrays up to which configuration files are
// parsed. Their formats use at most five levels.
const MaxNesting = 64

// Deep reports whether a JSON text nests objects and arrays more than levels deep. The
// text may contain comments and trailing commas. Call it before a parser that recurses
// without a limit, such as hujson: Go ends the process when a stack is too large, and
// nothing can recover from that. Invalid JSON counts up to the first error.
func Deep(text []byte, levels int) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			if depth++; depth > levels {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '/':
			end := ""
			if rest := text[i:]; bytes.HasPrefix(rest, []byte("//")) {
				end = "\n"
			} else if bytes.HasPrefix(rest, []byte("/*")) {
				end = "*/"
			}
			if end != "" {
				skip := bytes.Index(text[i+2:], []byte(end))
				if skip < 0 {
					return false // the comment has no end
				}
				i += 1 + skip + len(end)
			}
		}
	}
	return false
}
