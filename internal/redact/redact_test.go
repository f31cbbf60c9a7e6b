package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"

// encodings are encodings of a secret, implemented independently of this
// package.
var encodings = map[string]func(secret string) string{
	"Raw":         func(s string) string { return s },
	"HexLower":    func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HexUpper":    func(s string) string { return fmt.Sprintf("%X", s) },
	"Base64":      func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"Base64Raw":   func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) },
	"Base64URL":   func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
	"Query":       url.QueryEscape,
	"QueryLower":  func(s string) string { return lowerPercent(url.QueryEscape(s)) },
	"Path":        url.PathEscape,
	"GoJSON":      func(s string) string { return goJSON(s, true) },
	"PlainJSON":   func(s string) string { return goJSON(s, false) },
	"SlashJSON":   func(s string) string { return strings.ReplaceAll(goJSON(s, false), "/", `\/`) },
	"InTheMiddle": func(s string) string { return "a" + s + "z" },
}

func goJSON(s string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	quoted := strings.TrimSuffix(b.String(), "\n")
	return quoted[1 : len(quoted)-1]
}

func lowerPercent(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] == '%' {
			copy(b[i:], bytes.ToLower(b[i:i+3]))
		}
	}
	return string(b)
}

func TestEncodings(t *testing.T) {
	for name, secret := range map[string]string{
		"Token": token, "Short": "pa55word", "Odd": `a"b\c/d<e>&f g+%'é` + "\t\x01😀=?", "Slashes": "////////++++++++",
	} {
		r := New(map[string]string{"S": secret})
		for encoding, encode := range encodings {
			text := "before " + encode(secret) + " after"
			got := r.String(text)
			if strings.Contains(got, encode(secret)) || !strings.Contains(got, Marker) {
				t.Errorf("%s, %s: %q became %q", name, encoding, text, got)
			}
			if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("%s, %s: more than the secret is gone: %q", name, encoding, got)
			}
		}
		for before := range 3 {
			for _, after := range []string{"", "x", "yz"} {
				plain := strings.Repeat("p", before) + secret + after
				for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
					if got := r.String(e.EncodeToString([]byte(plain))); !strings.Contains(got, Marker) || len(got) > len(Marker)+10 {
						t.Errorf("%s, %d before and %q after: %q", name, before, after, got)
					}
				}
			}
		}
	}
}

func TestUnicodeEscapes(t *testing.T) {
	r := New(map[string]string{"S": "pässword/<1>\x02"})
	for _, text := range []string{
		`p\u00e4ssword/<1>\u0002`, `p\u00E4ssword\/<1>\u0002`, `p\u00e4ssword\/\u003c1\u003e\u0002`, `p\u00E4ssword\/\u003C1\u003E\u0002`,
		`pässword/\u003c1\u003e\u0002`,
	} {
		if got := r.String("\"" + text + "\""); got != "\""+Marker+"\"" {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// TestWrappedLines checks base64 and xxd output of long secrets, which is
// wrapped into lines.
func TestWrappedLines(t *testing.T) {
	secret := strings.Repeat("0123456789abcdefghij", 10)
	r := New(map[string]string{"S": secret})
	for _, command := range []string{"base64", "base64 -w 20 | sed 's/$/\\r/'", "od -An -v -tx1 | tr -d ' '"} {
		cmd := exec.Command("sh", "-c", command)
		cmd.Stdin = strings.NewReader("id: " + secret + " end")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		got := r.String(string(out))
		if !strings.Contains(got, Marker) || len(got) > 40 {
			t.Errorf("%s: %q", command, got)
		}
	}
}

func TestLinesOfAKey(t *testing.T) {
	body := strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n", 2) + "dGhlIGxhc3QgbGluZSBvZiBpdA==\n"
	pem := "-----BEGIN PRIVATE KEY-----\n" + body + "-----END PRIVATE KEY-----\n"
	r := New(map[string]string{"KEY": pem})
	if got := r.String("x" + pem + "y"); got != "x"+Marker+"\ny" {
		t.Errorf("whole: %q", got)
	}
	want := "  > " + Marker + "\r\n  > " + Marker + "\r\n  > " + Marker
	if got := r.String("  > " + strings.ReplaceAll(strings.TrimSpace(body), "\n", "\r\n  > ")); got != want {
		t.Errorf("quoted: %q", got)
	}
	if public := "-----BEGIN PRIVATE KEY-----"; r.String(public) != public {
		t.Error("what every key has is taken for a secret")
	}
}

func TestShortSecretsAreNamed(t *testing.T) {
	r := New(map[string]string{"B": "1234567", "A": " true \n", "EMPTY": "", "GOOD": "12345678"})
	if got := r.Short(); !slices.Equal(got, []string{"A", "B", "EMPTY"}) {
		t.Errorf("short: %q", got)
	}
	if got := r.String("1234567 true 12345678"); got != "1234567 true "+Marker {
		t.Errorf("%q", got)
	}
}

func TestNothingToLookFor(t *testing.T) {
	for _, r := range []*Redactor{nil, New(nil), New(map[string]string{"A": "x"})} {
		text := []byte(token)
		if !r.Empty() || r.Contains(text) || string(r.Bytes(text)) != token || r.String(token) != token {
			t.Error("something was found")
		}
		s := r.Stream()
		if got := string(s.Next(text)) + string(s.Flush()); got != token {
			t.Errorf("%q", got)
		}
		var out bytes.Buffer
		if _, err := r.Writer(&out).Write(text); err != nil || out.String() != token {
			t.Errorf("%q, %v", out.String(), err)
		}
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	n, err := New(map[string]string{"T": token}).Writer(&out).Write([]byte("a " + token + " b\n"))
	if err != nil || n != len(token)+5 || out.String() != "a "+Marker+" b\n" {
		t.Errorf("%d, %v, %q", n, err, out.String())
	}
}

// TestHoldsBackLittle checks that a repetitive secret delays no more text than
// a short secret.
func TestHoldsBackLittle(t *testing.T) {
	r := New(map[string]string{"A": "aaaaaaaaaaaa", "T": token})
	s := r.Stream()
	for _, piece := range []string{"a", "\n", "\r\n", "M\n", token[:20]} {
		chunk := []byte(strings.Repeat(piece, 1000))
		for range 100 {
			s.Next(chunk)
			if len(s.pending) > 400 || len(s.wrapped.breaks) > 400 || len(s.plain.found)+len(s.wrapped.found) > 400 {
				t.Fatalf("%q: %d bytes, %d breaks and %d spans are held", piece, len(s.pending), len(s.wrapped.breaks), len(s.plain.found))
			}
		}
		s.Flush()
	}
}

// TestGivesOutWhatIsNone checks that a prefix of a secret is output as soon as
// the text turns out not to be that secret.
func TestGivesOutWhatIsNone(t *testing.T) {
	s := New(map[string]string{"T": token}).Stream()
	if got := string(s.Next([]byte("say " + token[:30]))); got != "say " {
		t.Errorf("%q", got)
	}
	if got := string(s.Next([]byte("!"))); got != token[:30]+"!" {
		t.Errorf("%q", got)
	}
}

// naive is a slow and simple implementation for comparison.
func naive(patterns []string, text string) string {
	covered := make([]int, len(text)+1) // 1: the span continues from the previous byte
	in := make([]bool, len(text))
	for _, p := range patterns {
		for at := 0; ; at++ {
			i := strings.Index(text[at:], p)
			if i < 0 {
				break
			}
			at += i
			for k := range len(p) {
				in[at+k] = true
				if k > 0 {
					covered[at+k] = 1
				}
			}
		}
	}
	var out strings.Builder
	for i := range len(text) {
		switch {
		case !in[i]:
			out.WriteByte(text[i])
		case covered[i] == 0:
			out.WriteString(Marker)
		}
	}
	return out.String()
}

// split cuts a text at random places.
func split(t *rapid.T, text string) [][]byte {
	var pieces [][]byte
	for len(text) > 0 {
		n := rapid.IntRange(1, min(len(text), 40)).Draw(t, "piece")
		pieces = append(pieces, []byte(text[:n]))
		text = text[n:]
	}
	return pieces
}

func (r *Redactor) streamed(pieces [][]byte) string {
	s := r.Stream()
	var out []byte
	for _, p := range pieces {
		out = append(out, s.Next(p)...)
	}
	return string(append(out, s.Flush()...))
}

func TestAnySecretAnyTextAnyPieces(t *testing.T) {
	// Few letters, so that secrets overlap each other and themselves.
	alphabet := rapid.SampledFrom([]string{"ab", "abc\n", "ab/+%\"\\ é", "0123456789abcdefABCDEF"})
	rapid.Check(t, func(t *rapid.T) {
		letters := []rune(alphabet.Draw(t, "alphabet"))
		secret := rapid.StringOfN(rapid.SampledFrom(letters), MinLength, 20, -1).Filter(func(s string) bool {
			return len(strings.TrimSpace(s)) >= MinLength
		})
		secrets := map[string]string{}
		for i, s := range rapid.SliceOfN(secret, 1, 4).Draw(t, "secrets") {
			secrets[fmt.Sprint(i)] = s
		}
		r := New(secrets)
		var names, how []string
		for name := range secrets {
			names = append(names, name)
		}
		for name := range encodings {
			how = append(how, name)
		}
		slices.Sort(names)
		slices.Sort(how)
		var text strings.Builder
		for range rapid.IntRange(0, 6).Draw(t, "words") {
			if rapid.Bool().Draw(t, "secret") {
				value := strings.TrimSpace(secrets[rapid.SampledFrom(names).Draw(t, "which")])
				text.WriteString(encodings[rapid.SampledFrom(how).Draw(t, "how")](value))
				continue
			}
			text.WriteString(rapid.StringOfN(rapid.SampledFrom(letters), 0, 30, -1).Draw(t, "noise"))
		}
		in := text.String()
		got := r.streamed(split(t, in))
		if whole := r.String(in); got != whole {
			t.Fatalf("in pieces %q, whole %q", got, whole)
		}
		for name, value := range secrets {
			for encoding, encode := range encodings {
				if form := encode(strings.TrimSpace(value)); encoding != "InTheMiddle" && strings.Contains(got, form) {
					t.Fatalf("secret %s is there as %s: %q became %q", name, encoding, in, got)
				}
			}
		}
		if found := r.Contains([]byte(in)); found != (got != in) {
			t.Fatalf("found: %v, but %q became %q", found, in, got)
		}
		// Without line breaks, the result must equal the naive
		// implementation's.
		if !strings.ContainsAny(in, "\r\n") {
			if want := naive(allPatterns(r), in); got != want {
				t.Fatalf("%q became %q, want %q", in, got, want)
			}
		}
	})
}

// allPatterns returns the patterns in the automata.
func allPatterns(r *Redactor) []string {
	var all []string
	for _, a := range []*automaton{r.plain, r.wrapped} {
		var walk func(at int32, prefix string)
		walk = func(at int32, prefix string) {
			if at != 0 && int(a.states[at].match) == len(prefix) {
				all = append(all, prefix)
			}
			a.eachChild(at, func(c byte, child int32) { walk(child, prefix+string([]byte{c})) })
		}
		walk(0, "")
	}
	return all
}

func FuzzStream(f *testing.F) {
	f.Add("pa55word", "a pa55word and more", uint16(3))
	f.Add(token, base64.StdEncoding.EncodeToString([]byte("x"+token)), uint16(7))
	f.Add("aaaaaaaa", "aaaaaaaaa\n\r\n\raaaaaa", uint16(1))
	f.Fuzz(func(t *testing.T, secret, text string, cut uint16) {
		r := New(map[string]string{"S": secret})
		at := min(int(cut), len(text))
		got := r.streamed([][]byte{[]byte(text[:at]), []byte(text[at:])})
		if whole := r.String(text); got != whole {
			t.Fatalf("in pieces %q, whole %q", got, whole)
		}
		if value := strings.TrimSpace(secret); !r.Empty() && !strings.Contains(Marker, value) {
			if strings.Contains(strings.ReplaceAll(got, Marker, "\x00"), value) && !strings.Contains(value, "\x00") {
				t.Fatalf("%q is in %q", value, got)
			}
		}
		if !r.Contains([]byte(text)) && got != text {
			t.Fatalf("%q became %q without a secret", text, got)
		}
	})
}
