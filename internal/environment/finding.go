package environment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Severity is the severity of a finding.
type Severity string

// The severities of findings.
const (
	Warning Severity = "warning" // the value has an effect, but perhaps not the intended one
	Error   Severity = "error"   // the value has no effect
)

// Finding is a problem in a file. All its texts are sanitized: one line each,
// without control characters.
type Finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`          // from 1
	Column   int      `json:"column"`        // from 1, in bytes
	Key      string   `json:"key,omitempty"` // such as terminals[2].command; "" means the whole file
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`           // the problem
	Instead  string   `json:"instead,omitempty"` // how to fix it
}

// String returns the finding on one line, in the style of compilers.
func (f Finding) String() string {
	s := fmt.Sprintf("%s:%d:%d: %s: ", f.File, f.Line, f.Column, f.Severity)
	if f.Key != "" {
		s += f.Key + ": "
	}
	s += f.Message
	if f.Instead != "" {
		s += "; " + f.Instead
	}
	return s
}

// Linked returns the finding for a file that is a symbolic link or whose folder is one:
// links in repositories are not followed.
func Linked(file string) Finding {
	return Finding{
		File: file, Line: 1, Column: 1, Severity: Error,
		Message: "this is a symbolic link, and not followed", Instead: "put the file itself into the repository",
	}
}

// Findings are the problems in a file.
type Findings []Finding

// Worst returns the highest severity of the findings, or "" if there are none.
func (fs Findings) Worst() Severity {
	var worst Severity
	for _, f := range fs {
		if f.Severity == Error {
			return Error
		}
		worst = f.Severity
	}
	return worst
}

// maxFindings is the maximum number of findings per file.
const maxFindings = 100

// decoder parses one file and collects findings.
type decoder struct {
	file      string
	text      string
	lines     []int               // offsets of line starts
	positions map[string]position // locations in the file, by key path in the environment
	findings  Findings
}

func (d *decoder) warn(at int, key, instead, format string, args ...any) {
	d.add(Warning, at, key, instead, fmt.Sprintf(format, args...))
}

func (d *decoder) wrong(at int, key, instead, format string, args ...any) {
	d.add(Error, at, key, instead, fmt.Sprintf(format, args...))
}

func (d *decoder) add(s Severity, at int, key, instead, message string) {
	if len(d.findings) > maxFindings {
		return
	}
	if len(d.findings) == maxFindings {
		key, instead, message = "", "", fmt.Sprintf("there is more; these are the first %d", maxFindings)
	}
	line, _ := slices.BinarySearch(d.lines, at+1) // the first line that starts after it
	column := at + 1
	if line > 0 {
		column = at - d.lines[line-1] + 1
	}
	d.findings = append(d.findings, Finding{d.file, max(line, 1), column, key, s, clean(message, 300), clean(instead, 300)})
}

// sorted returns the findings in the order of the file.
func (d *decoder) sorted() Findings {
	slices.SortStableFunc(d.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return d.findings
}

// index stores the offsets at which lines begin.
func (d *decoder) index(text string) {
	d.text, d.lines = text, []int{0}
	for i := range len(text) {
		if text[i] == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
}

// clean makes text from a file safe to show on one line, with at most limit runes.
func clean(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			r = ' '
		}
		if n++; n > limit {
			b.WriteRune('…')
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
