package sandbox

import (
	"regexp"
	"slices"
	"strings"
)

// Ignore holds the patterns of .cursorignore files, with the syntax of .gitignore.
// Unlike in git, a question mark matches one character, not one byte. The zero Ignore
// matches nothing.
type Ignore struct{ patterns []pattern }

type pattern struct {
	within  string // folder of the file, relative to the root; "" is the root
	match   *regexp.Regexp
	negated bool
	folder  bool // matches only folders
}

// Add adds the patterns of a file in the folder dir, relative to the root (""
// is the root itself). Files must be added from the root down. Invalid patterns
// are ignored, as in git. Earlier copies of g are not changed.
func (g *Ignore) Add(dir, text string) {
	g.patterns = slices.Clip(g.patterns)
	for line := range strings.Lines(text) {
		if p, ok := parsePattern(strings.TrimRight(line, "\r\n")); ok {
			p.within = dir
			g.patterns = append(g.patterns, p)
		}
	}
}

// Match reports whether a path, relative to the root, is ignored. When walking
// a tree, do not enter an ignored folder: nothing in it can be re-included.
func (g *Ignore) Match(name string, folder bool) bool {
	for i := len(g.patterns) - 1; i >= 0; i-- {
		p := g.patterns[i]
		rel := name
		if p.within != "" {
			var in bool
			if rel, in = strings.CutPrefix(name, p.within+"/"); !in {
				continue
			}
		}
		if (folder || !p.folder) && p.match.MatchString(rel) {
			return !p.negated
		}
	}
	return false
}

// maxPattern is the maximum size of a pattern in bytes.
const maxPattern = 4096

func parsePattern(line string) (p pattern, ok bool) {
	// Ignore trailing spaces unless the last one is escaped.
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || line[0] == '#' || len(line) > maxPattern {
		return p, false
	}
	if line[0] == '!' {
		p.negated, line = true, line[1:]
	}
	line, p.folder = strings.CutSuffix(line, "/")
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return p, false
	}
	expression, ok := translate(line)
	if !ok {
		return p, false
	}
	if !anchored {
		expression = `(?:.*/)?` + expression
	}
	re, err := regexp.Compile(`(?s)\A` + expression + `\z`)
	p.match = re
	return p, err == nil
}

// translate converts a glob to a regular expression.
func translate(glob string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(glob); {
		c, rest := glob[i], glob[i:]
		switch {
		case strings.HasPrefix(rest, "**/") && (i == 0 || glob[i-1] == '/'):
			b.WriteString(`(?:.*/)?`)
			i += 3
		case rest == "**" && i > 0 && glob[i-1] == '/':
			b.WriteString(`.+`)
			i += 2
		case c == '*':
			b.WriteString(`[^/]*`)
			i++
		case c == '?':
			b.WriteString(`[^/]`)
			i++
		case c == '[':
			class, n, ok := translateClass(rest)
			if !ok {
				return "", false
			}
			b.WriteString(class)
			i += n
		case c == '\\':
			if i+1 == len(glob) {
				return "", false
			}
			n := runeLen(glob[i+1:])
			b.WriteString(regexp.QuoteMeta(glob[i+1 : i+1+n]))
			i += 1 + n
		default:
			n := runeLen(rest)
			b.WriteString(regexp.QuoteMeta(glob[i : i+n]))
			i += n
		}
	}
	return b.String(), true
}

// runeLen returns the length of the first character of s.
func runeLen(s string) int {
	for i := range s {
		if i > 0 {
			return i
		}
	}
	return len(s)
}

// translateClass parses [a-z], [!a-z] or [[:digit:]] and returns its length.
func translateClass(s string) (class string, n int, ok bool) {
	var b strings.Builder
	b.WriteByte('[')
	i := 1
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		b.WriteString(`^/`) // no class matches a slash
		i++
	}
	for start := i; i < len(s); {
		switch {
		case s[i] == ']' && i > start:
			b.WriteByte(']')
			return b.String(), i + 1, true
		case strings.HasPrefix(s[i:], "[:"):
			end := strings.Index(s[i:], ":]")
			if end < 0 {
				return "", 0, false
			}
			b.WriteString(s[i : i+end+2])
			i += end + 2
		case s[i] == '\\' && i+1 < len(s):
			b.WriteString(`\` + s[i+1:i+2])
			i += 2
		case s[i] == '[' || s[i] == '\\' || s[i] == ']':
			b.WriteString(`\` + s[i:i+1])
			i++
		default:
			b.WriteByte(s[i])
			i++
		}
	}
	return "", 0, false
}
