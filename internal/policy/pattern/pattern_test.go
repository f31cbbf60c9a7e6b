package pattern

import (
	"regexp"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, row := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "anything", true}, {"**", "", true},
		{"git", "git", true}, {"git", "gits", false}, {"git*", "git", true}, {"git *", "git", false},
		{"*test", "go test", true}, {"a*a", "a", false}, {"a*a", "aa", true}, {"a*b*c", "a-b-b-c", true},
		{"a*b*b", "a-b", false}, {"a.c", "abc", false}, {"[a]", "a", false}, {"a?", "ab", false}, {"a*", "a\nb", true},
	} {
		if got := Match(row.pattern, row.s); got != row.want {
			t.Errorf("Match(%q, %q) = %t, want %t", row.pattern, row.s, got, row.want)
		}
	}
}

// FuzzMatch compares Match with an equivalent regular expression.
func FuzzMatch(f *testing.F) {
	f.Add("a*b*", "axxbyy")
	f.Add("*aa*a", "aaa")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		parts := strings.Split(pattern, "*")
		for i, p := range parts {
			parts[i] = regexp.QuoteMeta(p)
		}
		same, err := regexp.Compile(`(?s)\A` + strings.Join(parts, ".*") + `\z`)
		if err != nil {
			return // invalid UTF-8 is not comparable
		}
		if got, want := Match(pattern, s), same.MatchString(s); got != want {
			t.Errorf("Match(%q, %q) = %t, want %t", pattern, s, got, want)
		}
	})
}
