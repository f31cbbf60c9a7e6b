package lsp

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Severity is the severity of a diagnostic; lower is more severe.
type Severity int

// Severities, with the protocol's numbers.
const (
	Error       Severity = 1
	Warning     Severity = 2
	Information Severity = 3
	Hint        Severity = 4
)

func (s Severity) String() string {
	switch s {
	case Error:
		return "error"
	case Warning:
		return "warning"
	case Information:
		return "information"
	}
	return "hint"
}

// Diagnostic is one problem in a file. Lines and columns count from 1, columns
// in the linter's own units. The end is exclusive, and 0 if unknown.
type Diagnostic struct {
	Path        string // absolute
	StartLine   int
	StartColumn int
	EndLine     int
	EndColumn   int
	Severity    Severity
	Source      string
	Code        string
	Message     string
}

const (
	maxDiagnostics = 200  // in a report
	maxOfFile      = 500  // kept for one file
	maxMessage     = 1000 // bytes
	maxName        = 100  // bytes of a source or a code
)

// tidy sorts diagnostics by severity, then by path and line, and removes duplicates. It
// returns the first maxDiagnostics and the total number.
func tidy(all []Diagnostic) ([]Diagnostic, int) {
	slices.SortFunc(all, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Path, b.Path), cmp.Compare(a.StartLine, b.StartLine),
			cmp.Compare(a.StartColumn, b.StartColumn), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Source, b.Source))
	})
	all = slices.CompactFunc(all, func(a, b Diagnostic) bool {
		return a.Path == b.Path && a.StartLine == b.StartLine && a.StartColumn == b.StartColumn && a.Message == b.Message
	})
	return all[:min(len(all), maxDiagnostics)], len(all)
}

// bound limits a diagnostic's texts and numbers, which a server sent.
func (d Diagnostic) bound() Diagnostic {
	d.Message = clip(strings.TrimSpace(d.Message), maxMessage)
	d.Source, d.Code = clip(d.Source, maxName), clip(d.Code, maxName)
	if d.Severity < Error || d.Severity > Hint {
		d.Severity = Warning
	}
	d.StartLine, d.StartColumn = max(d.StartLine, 1), max(d.StartColumn, 1)
	d.EndLine, d.EndColumn = max(d.EndLine, 0), max(d.EndColumn, 0)
	return d
}

// clip returns at most n bytes of text, as valid UTF-8.
func clip(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + " [… cut]"
}

// position and span are the protocol's types; they count from 0.
type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type span struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

// item is a diagnostic in the protocol's format.
type item struct {
	Range    span
	Severity Severity
	Code     json.RawMessage // a string or a number
	Source   string
	Message  json.RawMessage // a string, or an object with a kind and a value
}

func (i item) diagnostic(path, server string) Diagnostic {
	d := Diagnostic{
		Path: path, StartLine: i.Range.Start.Line + 1, StartColumn: i.Range.Start.Character + 1,
		EndLine: i.Range.End.Line + 1, EndColumn: i.Range.End.Character + 1,
		Severity: i.Severity, Source: cmp.Or(i.Source, server), Message: text(i.Message),
	}
	d.Code = text(i.Code)
	return d.bound()
}

// text returns a JSON string, or the value of {"value": …}, or else the raw
// JSON.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var holder struct{ Value json.RawMessage }
	if json.Unmarshal(raw, &holder) == nil && len(holder.Value) > 0 && holder.Value[0] != '{' {
		return text(holder.Value)
	}
	return string(raw)
}

func diagnostics(items []item, path, server string) []Diagnostic {
	out := make([]Diagnostic, 0, min(len(items), maxOfFile))
	for _, i := range items[:min(len(items), maxOfFile)] {
		out = append(out, i.diagnostic(path, server))
	}
	return out
}

// uri returns the file: URL of an absolute path.
func uri(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// pathOf returns the path of a file: URL; empty for other URLs.
func pathOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "file" {
		return ""
	}
	return u.Path
}
