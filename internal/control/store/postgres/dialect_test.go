package postgres

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzEscaped(f *testing.F) {
	for _, s := range []string{"", "plain", "nul\x00", "\x1a", "\x1a00", "\xff\xfe", "�", "ü\x80ü"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		kept := escaped(s)
		if !utf8.ValidString(kept) || strings.IndexByte(kept, 0) >= 0 {
			t.Errorf("%q becomes %q, which PostgreSQL refuses", s, kept)
		}
		if back := unescaped(kept); back != s {
			t.Errorf("%q becomes %q", s, back)
		}
	})
}
