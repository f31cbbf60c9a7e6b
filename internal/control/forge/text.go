package forge

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line makes one plain line of at most so many bytes, with an ellipsis where it
// was cut.
func Line(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			return ' '
		}
		if unicode.Is(unicode.Bidi_Control, r) {
			return -1 // it would turn the words beside it around
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return Cut(strings.Join(strings.Fields(s), " "), most)
}

// Cut makes text of at most so many bytes, with an ellipsis where it was cut,
// and never within a character. Nothing in it is no UTF-8 or a NUL, which hosts
// refuse.
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

// Web returns the address if it is one of a web page, else "".
func Web(s string) string {
	u, err := url.Parse(s)
	if err != nil || len(s) > maxURL || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return ""
	}
	return u.String()
}

// Hash returns a commit's id, or "" if it is none.
func Hash(s string) string {
	if len(s) != 40 && len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "" {
		return ""
	}
	return s
}

// Unmarked takes the word from a title by which GitLab and Gitea know a draft,
// and says whether there was one.
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

// Marked puts the word before a title that makes it a draft's, or takes it away,
// within so many bytes.
func Marked(mark, title string, draft bool, most int) string {
	rest, _ := Unmarked(Line(title, most))
	if !draft {
		mark = ""
	}
	return mark + Line(cmp.Or(rest, "Untitled"), most-len(mark))
}

// Newest sorts comments by their time, and keeps what [Discussion] promises.
func Newest(all []Comment) []Comment {
	slices.SortStableFunc(all, func(a, b Comment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all[max(len(all)-MaxComments, 0):]
}

// ByName sorts checks by their names, and keeps what [Forge] promises.
func ByName(all []Check) []Check {
	if len(all) > MaxChecks {
		weight := map[CheckState]int{Failure: -2, Pending: -1}
		slices.SortStableFunc(all, func(a, b Check) int { return weight[a.State] - weight[b.State] })
		all = all[:MaxChecks]
	}
	slices.SortStableFunc(all, func(a, b Check) int { return strings.Compare(a.Name, b.Name) })
	return all
}
