package environment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Severity is how bad a finding is.
type Severity string

// Severities.
const (
	Warning Severity = "warning" // it works, and is perhaps not what was meant
	Error   Severity = "error"   // the value has no effect
)

// Finding is something wrong with a file. All its words are clean: one line
// each, without control characters, whatever the file holds.
type Finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`          // from 1
	Column   int      `json:"column"`        // from 1, in bytes
	Key      string   `json:"key,omitempty"` // terminals[2].command; "" for the whole file
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`           // what is wrong
	Instead  string   `json:"instead,omitempty"` // what to write instead
}

// String is the finding on one line, as compilers write it.
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

// Linked is what is wrong with a file, or its folder, that is a symbolic link:
// those of a repository are not followed.
func Linked(file string) Finding {
	return Finding{
		File: file, Line: 1, Column: 1, Severity: Error,
		Message: "this is a symbolic link, and not followed", Instead: "put the file itself into the repository",
	}
}

// Findings are what is wrong with a file.
type Findings []Finding

// Worst is the severity of the worst finding, "" if there are none.
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

// maxFindings is how many findings a file gets: who has more does not read on.
const maxFindings = 100

// decoder reads one file and collects what is wrong with it.
type decoder struct {
	file      string
	text      string
	lines     []int               // offsets at which lines begin
	positions map[string]position // what the environment says, to where it was said
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
	line, _ := slices.BinarySearch(d.lines, at+1) // the first line that begins after it
	column := at + 1
	if line > 0 {
		column = at - d.lines[line-1] + 1
	}
	d.findings = append(d.findings, Finding{d.file, max(line, 1), column, key, s, clean(message, 300), clean(instead, 300)})
}

// sorted are the findings in the order of the file.
func (d *decoder) sorted() Findings {
	slices.SortStableFunc(d.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return d.findings
}

// index finds where lines begin.
func (d *decoder) index(text string) {
	d.text, d.lines = text, []int{0}
	for i := range len(text) {
		if text[i] == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
}

// clean makes words from a file fit to be shown on one line, at most max runes.
func clean(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			r = ' '
		}
		if n++; n > most {
			b.WriteRune('…')
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
