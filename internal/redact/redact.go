// Package redact takes secrets out of bytes: wherever the value of a secret
// stands, as it is or encoded, [Marker] is put in its place. It knows the value
// itself, its base64 (both alphabets, at any place of a longer text, wrapped
// into lines or not), its hex (likewise), its percent encodings and its escapes
// in JSON strings. A value of several lines is also looked for line by line.
//
// It guards against accidents, such as a command that prints its environment.
// It is no wall against somebody who wants a secret out and encodes it in some
// way of their own, or prints a part of it.
//
// All values are looked for at once, in time linear in the text, whatever the
// text. Memory is about 300 bytes for each byte of a secret.
package redact

import (
	"io"
	"maps"
	"slices"
	"strings"
)

// Marker stands where a secret stood.
const Marker = "[REDACTED]"

// MinLength is the least length of a secret, in bytes and without the white
// space around it. Shorter values, such as "1" or "true", stand in so much
// innocent text that taking them out would spoil more than it hides: they are
// passed over, and [Redactor.Short] names them.
const MinLength = 8

// minLine is the least length of a line that is looked for by itself, in bytes.
const minLine = 16

// Redactor finds a set of secrets. It does not change, and is safe for
// concurrent use. A nil Redactor has no secrets.
type Redactor struct {
	plain   *automaton // values, percent encodings, JSON escapes
	wrapped *automaton // base64 and hex, which may be broken into lines
	short   []string
}

// New makes a Redactor of secrets, by their names.
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

// parts returns the value and those of its lines that say something.
func parts(value string) []string {
	all := []string{value}
	if !strings.ContainsAny(value, "\r\n") {
		return all
	}
	for line := range strings.FieldsFuncSeq(value, func(c rune) bool { return c == '\r' || c == '\n' }) {
		line = strings.TrimSpace(line)
		if armour := strings.HasPrefix(line, "-----"); len(line) >= minLine && !armour { // every key has the same
			all = append(all, line)
		}
	}
	return all
}

// Short returns the names of the secrets that are too short to be looked for,
// sorted.
func (r *Redactor) Short() []string {
	if r == nil {
		return nil
	}
	return slices.Clone(r.short)
}

// Empty reports whether there is nothing to look for.
func (r *Redactor) Empty() bool { return r == nil || r.plain == nil }

// Screen returns what a terminal shows without secrets, where a line that is
// too long for it goes on in the next: a secret is also found across the end of
// a line.
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

// Bytes returns b without secrets: b itself where it has none.
func (r *Redactor) Bytes(b []byte) []byte {
	if !r.Contains(b) {
		return b
	}
	s := r.Stream()
	out := slices.Clone(s.Next(b))
	return append(out, s.Flush()...)
}

// String is [Redactor.Bytes] for a string.
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

// Contains reports whether b holds a secret.
func (r *Redactor) Contains(b []byte) bool {
	f := r.Finder()
	return f.Found(b)
}

// Writer returns a writer that passes on what is written to it without secrets.
// Each write is taken for a whole, as those of a logger are: a secret that is
// split between two goes through. It is as safe for concurrent use as w.
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
