package forge

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line reduces s to one plain line of limited length in bytes, with an ellipsis
// if it is truncated.
func Line(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			return ' '
		}
		if isHidden(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return Cut(strings.Join(strings.Fields(s), " "), most)
}

// isHidden reports whether a character is invisible to people but visible to a
// model: marks of text direction, which could reverse the surrounding text,
// tags, characters without width, and supplementary variation selectors.
// Joiners, which some scripts and emoji need, do not count as hidden.
func isHidden(r rune) bool {
	return unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d' || 0xE0100 <= r && r <= 0xE01EF
}

// Cut truncates s to a limited number of bytes, with an ellipsis, and never
// within a character. It removes invalid UTF-8 and NUL, which hosts reject.
func Cut(s string, most int) string {
	const more = "…"
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) <= most {
		return s
	}
	end := max(most-len(more), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.TrimRight(s[:end], " ") + more
}

// Web returns the address if it is an http or https address, or else "".
func Web(s string) string {
	u, err := url.Parse(s)
	if err != nil || len(s) > maxURL || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return ""
	}
	return u.String()
}

// Hash returns s if it is a commit id, or else "".
func Hash(s string) string {
	if len(s) != 40 && len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "" {
		return ""
	}
	return s
}

// Unmarked removes the prefix with which GitLab and Gitea mark drafts from a
// title, and reports whether there was one.
func Unmarked(title string) (string, bool) {
	draft := false
	for {
		rest, ok := cutMark(title)
		if !ok {
			return title, draft
		}
		title, draft = rest, true
	}
}

var marks = []string{"draft:", "[draft]", "(draft)", "wip:", "[wip]"}

func cutMark(title string) (string, bool) {
	for _, m := range marks {
		if len(title) >= len(m) && strings.EqualFold(title[:len(m)], m) {
			return strings.TrimSpace(title[len(m):]), true
		}
	}
	return title, false
}

// Marked adds or removes the draft prefix of a title, and limits the length of
// the result in bytes.
func Marked(mark, title string, draft bool, most int) string {
	rest, _ := Unmarked(Line(title, most))
	if !draft {
		mark = ""
	}
	return mark + Line(cmp.Or(rest, "Untitled"), most-len(mark))
}

// Newest sorts comments by time and keeps as many as [Discussion] documents.
func Newest(all []Comment) []Comment {
	slices.SortStableFunc(all, func(a, b Comment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all[max(len(all)-MaxComments, 0):]
}

// ByName sorts checks by name and keeps as many as [Forge] documents.
func ByName(all []Check) []Check {
	if len(all) > MaxChecks {
		weight := map[CheckState]int{Failure: -2, Pending: -1}
		slices.SortStableFunc(all, func(a, b Check) int { return weight[a.State] - weight[b.State] })
		all = all[:MaxChecks]
	}
	slices.SortStableFunc(all, func(a, b Check) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Quote prefixes every line of the text with "> ", so that no text can end its
// own quotation.
func Quote(b *strings.Builder, text string) {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\r' || r == '\u2028' || r == '\u2029' || r == '\u0085' || r == '\v' || r == '\f':
			return '\n'
		case r != '\n' && r != '\t' && unicode.IsControl(r) || isHidden(r):
			return -1
		}
		return r
	}, strings.ReplaceAll(text, "\r\n", "\n"))
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		b.WriteString("> " + strings.TrimRight(line, "\n") + "\n")
	}
}
