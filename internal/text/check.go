package text

import (
	"bytes"
	"fmt"
)

// Limits of configuration files in JSON. Their formats use at most five levels.
const (
	maxNesting = 64
	maxValues  = 50_000
)

// CheckJSON returns an error if a JSON text has too many values, or nests objects and
// arrays too deep. The text may contain comments and trailing commas. Call CheckJSON
// before a parser that recurses without a limit, such as hujson: Go ends the process
// when a stack is too large, and nothing can recover from that. Of invalid JSON it checks
// the part before the first error.
func CheckJSON(text []byte) error { return checkJSON(text, maxNesting, maxValues) }

// errManyValues is the error for too many values.
var errManyValues = fmt.Errorf("it has more than %d values", maxValues)

func checkJSON(text []byte, nesting, values int) error {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			if depth++; depth > nesting {
				return fmt.Errorf("values are nested more than %d deep", nesting)
			}
			values--
		case ',':
			values--
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
					return nil // the comment has no end
				}
				i += 1 + skip + len(end)
			}
		}
		if values < 0 {
			return errManyValues
		}
	}
	return nil
}
