package redact

import (
	"encoding/base64"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIdleGivesOutTheEndOfALine(t *testing.T) {
	r := New(map[string]string{"a": token, "b": "$ rm -rf /important"})
	s := r.Stream()
	if got := string(s.Next([]byte("~$ "))); got != "~" || !s.Holds() {
		t.Errorf("next gives %q", got)
	}
	if got := string(s.Idle()); got != "$ " || s.Holds() {
		t.Errorf("idle gives %q", got)
	}
	if got := string(s.Idle()); got != "" {
		t.Errorf("idle again gives %q", got)
	}
	if got := string(s.Next([]byte("make\n"))); got != "make\n" {
		t.Errorf("then %q", got)
	}
}

func TestIdleGivesOutNoSecret(t *testing.T) {
	longer := token + "\nwhich goes on in another line"
	for name, secrets := range map[string]map[string]string{
		"One": {"a": token}, "OneBeginsAnother": {"a": token, "b": longer},
	} {
		for form, text := range map[string]string{"Plain": token, "Base64": base64.StdEncoding.EncodeToString([]byte(token))} {
			t.Run(name+form, func(t *testing.T) {
				s := New(secrets).Stream()
				var out strings.Builder
				for _, c := range []byte("is " + text + " it") { // one byte at a time
					out.Write(s.Next([]byte{c}))
					out.Write(s.Idle())
				}
				out.Write(s.Flush())
				if got, want := out.String(), "is "+text[:MinLength-1]+Marker+" it"; got != want {
					t.Errorf("%q, want %q", got, want)
				}
			})
		}
	}
}

// TestIdleAnywhere calls Idle at every point. At most a part of a secret that
// is too short to count as a secret may be output. Text without secrets must be
// unchanged.
func TestIdleAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SampledFrom([]rune("ab\n")) // every position almost begins a secret
		secret := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), MinLength, 20, -1).Draw(t, "secret")
		text := rapid.StringOf(alphabet).Draw(t, "before") + secret + rapid.StringOf(alphabet).Draw(t, "after")
		if rapid.Bool().Draw(t, "without") {
			text = strings.ReplaceAll(text, "b", "a")
			if strings.Contains(secret, "b") {
				secret += "!"
			}
		}
		r := New(map[string]string{"s": secret})
		s := r.Stream()
		var out strings.Builder
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			out.Write(s.Next([]byte(rest[:n])))
			rest = rest[n:]
			if rapid.Bool().Draw(t, "idle") {
				out.Write(s.Idle())
			}
		}
		out.Write(s.Flush())
		switch got := out.String(); {
		case strings.Contains(got, secret):
			t.Fatalf("%q became %q", text, got)
		case !r.Contains([]byte(text)) && got != text:
			t.Fatalf("%q, which has no secret, became %q", text, got)
		case r.Contains([]byte(text)) && !strings.Contains(got, Marker):
			t.Fatalf("%q became %q, without a marker", text, got)
		}
	})
}

func TestScreen(t *testing.T) {
	r := New(map[string]string{"a": token})
	for text, want := range map[string]string{
		"":                                       "",
		"$ echo\nnothing":                        "$ echo\nnothing",
		"$ " + token:                             "$ " + Marker,
		"$ " + token[:10] + "\n" + token[10:]:    "$ " + Marker,
		token[:5] + "\n" + token[5:] + "\nx\n$ ": Marker + "\nx\n$ ",
		token[:10] + "\n\n\n" + token[10:]:       token[:10] + "\n\n\n" + token[10:],
		token + "\n" + token:                     Marker + "\n" + Marker,
	} {
		if got := r.Screen(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
