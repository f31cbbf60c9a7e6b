package redact

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// addPlain adds the encodings of a value that programs do not wrap into lines.
func addPlain(to map[string]struct{}, value string) {
	to[value] = struct{}{}
	for _, escape := range urlEscapes {
		for _, digits := range []string{lower, upper} {
			to[percent(value, escape, digits)] = struct{}{}
		}
	}
	for _, escape := range jsonEscapes {
		for _, digits := range []string{lower, upper} {
			to[escape.apply(value, digits)] = struct{}{}
		}
	}
}

// addWrapped adds the encodings that programs wrap into lines.
func addWrapped(to map[string]struct{}, value string) {
	digits := hex.EncodeToString([]byte(value))
	to[digits] = struct{}{}
	to[strings.ToUpper(digits)] = struct{}{}
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			for _, form := range base64Forms(alphabet, value, before) {
				to[form] = struct{}{}
			}
		}
	}
}

// base64Forms returns the base64 of a value inside a longer text, without the characters
// that depend on the rest of the text. before is the number of bytes, modulo three, that
// precede the value. base64Forms also returns the forms for a text that ends with the
// value, with and without padding.
func base64Forms(alphabet *base64.Encoding, value string, before int) []string {
	text := alphabet.EncodeToString([]byte("\x00\x00"[:before] + value))
	first := (before*8 + 5) / 6            // the first character without bits of the preceding text
	whole := (before*8 + len(value)*8) / 6 // the end of the characters without bits of the following text
	forms := []string{text[first:whole]}
	if whole < len(text) {
		pad := strings.Repeat("=", 3-(before+len(value))%3)
		forms = append(forms, text[first:], text[first:]+pad)
	}
	return forms
}

const (
	lower = "0123456789abcdef"
	upper = "0123456789ABCDEF"
)

// urlEscape is a variant of percent encoding: the characters other than letters and
// digits that it leaves unchanged, and its encoding of a space.
type urlEscape struct {
	unescaped string
	space     string
}

var urlEscapes = []urlEscape{
	{"-_.~", "+"},                   // form encoding of Go, and almost that of JavaScript's URLSearchParams
	{"-_.~", "%20"},                 // RFC 3986
	{"-_.~/", "%20"},                // Python's quote
	{"-_.*", "+"},                   // WHATWG forms, Java
	{"-_.!~*'()", "%20"},            // encodeURIComponent
	{"-_.!~*'();,/?:@&=+$#", "%20"}, // encodeURI
	{"-_.~$&+=:@", "%20"},           // Go's path segment
	{"-_.~!$&'()*+,;=:@", "%20"},    // RFC 3986's path segment
	{"", "%20"},                     // all characters except letters and digits are encoded
}

func percent(value string, e urlEscape, digits string) string {
	var out strings.Builder
	for i := range len(value) {
		switch c := value[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(e.unescaped, c) >= 0:
			out.WriteByte(c)
		case c == ' ':
			out.WriteString(e.space)
		default:
			out.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return out.String()
}

// jsonEscape is a variant of encoding JSON strings.
type jsonEscape struct {
	slash      bool   // / is written as \/
	unicode    string // ASCII characters that are written as \u00xx
	ascii      bool   // all non-ASCII characters are written as \uxxxx
	separators bool   // U+2028 and U+2029 are escaped
}

var jsonEscapes = []jsonEscape{
	{},                                 // JavaScript
	{unicode: "<>&", separators: true}, // Go
	{ascii: true},                      // Python
	{slash: true, ascii: true},         // PHP
	{slash: true},
	{unicode: "<>&'\"", slash: true, ascii: true}, // PHP with JSON_HEX_*
	{unicode: "<>&'+\"`\x7f", ascii: true},        // .NET
	{unicode: "<>&'=", ascii: false},              // Gson
}

var jsonShort = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`,
}

func (e jsonEscape) apply(value, digits string) string {
	var out strings.Builder
	unit := func(u uint16) {
		fmt.Fprintf(&out, `\u%c%c%c%c`, digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	for i := 0; i < len(value); {
		c, size := utf8.DecodeRuneInString(value[i:])
		short, isShort := jsonShort[c]
		switch {
		case c == utf8.RuneError && size == 1:
			out.WriteByte(value[i])
		case c < utf8.RuneSelf && strings.ContainsRune(e.unicode, c), c < ' ' && !isShort,
			e.separators && (c == '\u2028' || c == '\u2029'):
			unit(uint16(c))
		case isShort:
			out.WriteString(short)
		case c == '/' && e.slash:
			out.WriteString(`\/`)
		case c >= utf8.RuneSelf && e.ascii:
			for _, u := range utf16.AppendRune(nil, c) {
				unit(u)
			}
		default:
			out.WriteString(value[i : i+size])
		}
		i += size
	}
	return out.String()
}
