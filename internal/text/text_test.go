package text_test

import (
	"testing"
	"unicode/utf8"

	"aloft/internal/text"
)

func TestHead(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"aé", 2, "a"}, {"aé", 3, "aé"}, {"a\xffb", 3, "ab"}, {"abc", 0, ""}, {"abc", -1, ""},
	} {
		if got := text.Head(c.s, c.n); got != c.want {
			t.Errorf("Head(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

func TestAbbreviate(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"aéb", 2, "a…"}, {"a", -1, "…"},
	} {
		if got := text.Abbreviate(c.s, c.n, "…"); got != c.want {
			t.Errorf("Abbreviate(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

func FuzzHead(f *testing.F) {
	f.Add("aé\xff", 2)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if got := text.Head(s, n); len(got) > max(n, 0) || !utf8.ValidString(got) {
			t.Errorf("Head(%q, %d) = %q", s, n, got)
		}
	})
}
