package cli_test

import (
	"fmt"
	"testing"

	"aloft/internal/cli"
)

// Nothing of a command is hidden from the person who approves it, neither by an
// escape sequence, in which a terminal and Clean hide what a shell runs, nor by
// characters that show nothing. The dashboard's clip.test.ts has the same texts.
func TestExact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"echo \x1b]0;; rm -rf ~ \a && true":       "echo ⟨U+001B⟩]0;; rm -rf ~ ⟨U+0007⟩ && true",
		"a\x1b[8mb":                               "a⟨U+001B⟩[8mb",
		"rm -rf /\rls":                            "rm -rf /⟨U+000D⟩ls",
		"one\r\ntwo\n\tthree":                     "one\ntwo\n\tthree",
		"rm\u202e -rf \u2066x":                    "rm⟨U+202E⟩ -rf ⟨U+2066⟩x",
		"rm -rf /tm\u200bp\u00ad\U000e0041\u009b": "rm -rf /tm⟨U+200B⟩p⟨U+00AD⟩⟨U+E0041⟩⟨U+009B⟩",
		"\xff": "\ufffd",
	} {
		if got := cli.Exact(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
	for _, r := range []rune{0x3164, 0x180e, 0x2063, 0xffa0, 0xe0101, 0xe01ef, 0x1d173, 0xfff9} {
		if got, want := cli.Exact("a"+string(r)+"b"), fmt.Sprintf("a⟨U+%04X⟩b", r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, plain := range []string{"❤️", "می\u200cخواهم", "اكتب", "é 日本 😀", "👩\u200d💻"} {
		if got := cli.Exact(plain); got != plain {
			t.Errorf("%q is shown as %q", plain, got)
		}
	}
	if got, want := cli.ExactLine("a\nb\u202egpj.exe"), "a⟨U+000A⟩b⟨U+202E⟩gpj.exe"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
