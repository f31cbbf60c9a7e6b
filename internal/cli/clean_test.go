package cli

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain ünï ✈ text\n\ttab":                  "plain ünï ✈ text\n\ttab",
		"\x1b[31mred\x1b[0m":                       "red",
		"\x1b]0;title\x07after":                    "after",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1b]52;c;aGk=\x1b\\clip":                 "clip",
		"\x1bP1$r\x1b\\dcs":                        "dcs",
		"\u009b31mred":                             "red",
		"a\r\nb\rc":                                "a\nb\nc",
		"\x00\x07\x08\x7fx":                        "x",
		"\x1b(Bx":                                  "x",
		"open \x1b]0;never closed\nnext line":      "open \nnext line",
		"admin\u202etxt.exe":                       "admintxt.exe",
		"bad \xff byte":                            "bad \ufffd byte",
		"\x1b\x1b[2Jx":                             "x",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q; want %q", in, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	if got := Line(" a\n b\t\x1b[1mc ", 0); got != "a b c" {
		t.Errorf("Line = %q", got)
	}
	if got := Line("one two three", 8); got != "one two…" {
		t.Errorf("Line of 8 = %q", got)
	}
}

// FuzzClean checks that the output contains no terminal control sequence,
// wherever the text is cut.
func FuzzClean(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m", 3)
	f.Add("\x1b]0;title\x07after\r\n", 9)
	f.Add("a\u009b1m\u202e\xff", 2)
	f.Fuzz(func(t *testing.T, s string, at int) {
		whole := Clean(s)
		for _, r := range whole {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Fatalf("%q is left of %q", r, s)
			}
		}
		if !utf8.ValidString(whole) {
			t.Fatalf("%q is not UTF-8", whole)
		}
		if at < 0 || at > len(s) || !utf8.ValidString(s[:at]) || !utf8.ValidString(s[at:]) {
			return
		}
		var c Cleaner
		if got := c.Clean(s[:at]) + c.Clean(s[at:]); got != whole {
			t.Fatalf("cut at %d: %q; whole: %q", at, got, whole)
		}
	})
}

func TestValueIsOneLineThatNoTerminalObeys(t *testing.T) {
	var out strings.Builder
	o := New(&out, &out, Options{JSON: true})
	if err := o.Value(map[string]string{"text": "a\nb\x1b[1m\u009b1m\u202e<&>"}); err != nil {
		t.Fatal(err)
	}
	if want := `{"text":"a\nb\u001b[1m\u009b1m\u202e<&>"}` + "\n"; out.String() != want {
		t.Errorf("printed %q; want %q", out.String(), want)
	}
}
