// Package redact removes secrets from text: it replaces each occurrence of a secret's
// value by [Marker], whether plain or encoded. It recognizes base64 (both alphabets, at
// any offset in a longer text, wrapped into lines or not), hex (wrapped or not), percent
// encodings and escapes in JSON strings. Each line of a multi-line value is also
// searched for separately.
//
// The package prevents accidents, such as a command that prints its environment. It does
// not stop anybody who deliberately encodes a secret in another way, or prints parts of
// it.
//
// All values are searched for at once, in time linear in the text. The package uses
// about 300 bytes of memory per byte of a secret.
package redact

import (
	"io"
	"maps"
	"slices"
	"strings"
)

// Marker replaces a secret.
const Marker = "[REDACTED]"

// MinLength is the minimum length of a secret in bytes, without surrounding white space.
// Shorter values, such as "1" or "true", are so common in other text that removing them
// would do more harm than good. They are ignored, and [Redactor.Short] lists their
// names.
const MinLength = 8

// minLine is the minimum length in bytes of a line that is searched for separately.
const minLine = 16

// Redactor finds a set of secrets. It is immutable and safe for concurrent use.
// A nil Redactor has no secrets.
type Redactor struct {
	plain   *automaton // values, percent encodings, JSON escapes
	wrapped *automaton // base64 and hex, which may be wrapped into lines
	short   []string
}

// New returns a Redactor of secrets, keyed by name.
func New(secrets map[string]string) *Redactor {
	r := new(Redactor)
	plain, wrapped := map[string]struct{}{}, map[string]struct{}{}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		value := strings.TrimSpace(secrets[name])
		if len(value) < MinLength {
			r.short = append(r.short, name)
			continue
		}
		for _, part := range parts(value) {
			addPlain(plain, part)
			addWrapped(wrapped, part)
		}
	}
	r.plain, r.wrapped = build(plain), build(wrapped)
	return r
}

// parts returns the value and its characteristic lines.
func parts(value string) []string {
	all := []string{value}
	if !strings.ContainsAny(value, "\r\n") {
		return all
	}
	for line := range strings.FieldsFuncSeq(value, func(c rune) bool { return c == '\r' || c == '\n' }) {
		line = strings.TrimSpace(line)
		if armour := strings.HasPrefix(line, "-----"); len(line) >= minLine && !armour { // PEM headers are the same in every key
			all = append(all, line)
		}
	}
	return all
}

// Short returns the sorted names of the secrets that are too short to search
// for.
func (r *Redactor) Short() []string {
	if r == nil {
		return nil
	}
	return slices.Clone(r.short)
}

// Empty reports whether there are no secrets to search for.
func (r *Redactor) Empty() bool { return r == nil || r.plain == nil }

// Screen redacts the text of a terminal. The terminal breaks long lines, so Screen also
// finds secrets across line ends.
func (r *Redactor) Screen(text string) string {
	if r.Empty() {
		return text
	}
	lines := wrappedScan{of: r.plain}
	lines.next([]byte(text))
	var out strings.Builder
	done := int64(0)
	for _, m := range lines.found {
		out.WriteString(text[done:m.start])
		out.WriteString(Marker)
		done = m.end
	}
	out.WriteString(text[done:])
	return r.String(out.String())
}

// Bytes returns b without secrets. If there are none, it returns b itself.
func (r *Redactor) Bytes(b []byte) []byte {
	if !r.Contains(b) {
		return b
	}
	s := r.Stream()
	out := slices.Clone(s.Next(b))
	return append(out, s.Flush()...)
}

// String is like [Redactor.Bytes], for a string.
func (r *Redactor) String(s string) string {
	if r.Empty() || len(s) < MinLength {
		return s
	}
	b := []byte(s)
	if !r.Contains(b) {
		return s
	}
	return string(r.Bytes(b))
}

// Contains reports whether b contains a secret.
func (r *Redactor) Contains(b []byte) bool {
	f := r.Finder()
	return f.Found(b)
}

// Writer returns a writer that redacts its input. Like a logger's output, each write is
// treated as a complete text: a secret split over two writes is not found. The writer is
// as safe for concurrent use as w.
func (r *Redactor) Writer(w io.Writer) io.Writer {
	if r.Empty() {
		return w
	}
	return writer{r, w}
}

type writer struct {
	r *Redactor
	w io.Writer
}

func (w writer) Write(b []byte) (int, error) {
	if _, err := w.w.Write(w.r.Bytes(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}
