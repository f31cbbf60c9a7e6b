package ripgrep

import (
	"regexp"
	"strings"
)

// glob matches paths with rg's glob syntax: * and ? match no slash, ** matches
// any number of folders, [a-z] and {a,b} match alternatives.
type glob func(path string) bool

// compileGlob returns the glob for a pattern. Common forms are matched without
// a regular expression.
func compileGlob(pattern string) (glob, error) {
	if name, ok := strings.CutPrefix(pattern, "**/"); ok && !strings.ContainsAny(name, `*?[]{}\/`) {
		return func(path string) bool {
			rest, ok := strings.CutSuffix(path, name)
			return ok && (rest == "" || rest[len(rest)-1] == '/')
		}, nil
	}
	if end, ok := strings.CutPrefix(pattern, "**/*"); ok && end != "" && !strings.ContainsAny(end, `*?[]{}\/`) {
		return func(path string) bool { return strings.HasSuffix(path, end) }, nil
	}
	if !strings.ContainsAny(pattern, `*?[]{}\`) {
		return func(path string) bool { return path == pattern }, nil
	}
	re, err := regexp.Compile(`(?s)\A(?:` + globRegexp(pattern) + `)\z`)
	if err != nil {
		return nil, wrong("error parsing glob '%s'", pattern)
	}
	return re.MatchString, nil
}

// globRegexp translates a glob. Braces that are not closed make an invalid
// regular expression.
func globRegexp(pattern string) string {
	var b strings.Builder
	depth := 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			end := i
			for end < len(pattern) && pattern[end] == '*' {
				end++
			}
			starts, ends := i == 0 || pattern[i-1] == '/', end == len(pattern) || pattern[end] == '/'
			switch {
			case end-i != 2 || !starts || !ends:
				b.WriteString(`[^/]*`)
			case end == len(pattern):
				b.WriteString(`.*`)
			default: // **/ in front of something
				b.WriteString(`(?:.*/)?`)
				end++
			}
			i = end - 1
		case '?':
			b.WriteString(`[^/]`)
		case '[':
			class, length := classRegexp(pattern[i:])
			b.WriteString(class)
			i += length - 1
		case '{':
			depth++
			b.WriteString(`(?:`)
		case '}':
			depth--
			b.WriteString(`)`)
		case ',':
			if depth > 0 {
				b.WriteString(`|`)
			} else {
				b.WriteString(`,`)
			}
		case '\\':
			if i++; i < len(pattern) {
				b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
			} else {
				b.WriteString(`(`) // rg refuses it as well
			}
		default:
			if c < 0x80 {
				b.WriteString(regexp.QuoteMeta(string(rune(c))))
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}

// classRegexp translates the class at the start of a glob, and returns its
// length there. A class that is not closed makes an invalid regular expression.
func classRegexp(glob string) (class string, length int) {
	body, not := glob[1:], ""
	if body != "" && (body[0] == '!' || body[0] == '^') {
		body, not = body[1:], "^"
	}
	end := strings.IndexByte(body, ']')
	if end == 0 { // a bracket that comes first is meant literally
		if end = strings.IndexByte(body[1:], ']'); end >= 0 {
			end++
		}
	}
	if end < 0 {
		return `(`, len(glob)
	}
	escaped := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(body[:end])
	return "[" + not + escaped + "]", len(glob) - len(body) + end + 1
}

// verdict is the result of ignore rules for a path.
type verdict int

const (
	none verdict = iota
	ignore
	keep // a rule with an exclamation mark
)

// rule is one line of a .gitignore file.
type rule struct {
	match   glob
	dirOnly bool
	verdict verdict
}

// rules are the lines of one ignore file. The last matching line counts.
type rules []rule

// parseRules parses an ignore file. Lines that are not valid are left out.
func parseRules(text string) rules {
	var all rules
	for line := range strings.Lines(text) {
		if r, ok, err := parseRule(strings.TrimRight(line, "\r\n")); ok && err == nil {
			all = append(all, r)
		}
	}
	return all
}

// parseRule parses a line of an ignore file. It returns false for a line
// without a rule.
func parseRule(line string) (r rule, ok bool, err error) {
	if strings.HasPrefix(line, "#") {
		return r, false, nil
	}
	if !strings.HasSuffix(line, `\ `) {
		line = strings.TrimRight(line, " \t")
	}
	r.verdict = ignore
	switch {
	case strings.HasPrefix(line, `\!`), strings.HasPrefix(line, `\#`):
		line = line[1:]
	case strings.HasPrefix(line, "!"):
		line, r.verdict = line[1:], keep
	}
	line, rooted := strings.CutPrefix(line, "/")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	if line == "" {
		return r, false, nil
	}
	if !rooted && !strings.Contains(line, "/") {
		line = "**/" + line
	}
	if strings.HasSuffix(line, "/**") { // the folder itself does not match
		line += "/*"
	}
	r.match, err = compileGlob(line)
	return r, true, err
}

// judge applies the rules to a path, relative to their folder.
func (all rules) judge(path string, dir bool) verdict {
	for i := len(all) - 1; i >= 0; i-- {
		if (dir || !all[i].dirOnly) && all[i].match(path) {
			return all[i].verdict
		}
	}
	return none
}
