// Package cli writes the output of commands: to a terminal with color and a
// status line, to a pipe as plain lines, and to programs as JSON. Text from a
// machine, a model or a server must be cleaned before it is printed: see
// [Cleaner].
//
// The commands themselves are in cmd/aloft.
package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
)

// Output writes a command's output. Its methods are safe for concurrent use.
type Output struct {
	json  bool
	color bool
	live  bool // lines can be redrawn
	out   io.Writer
	err   io.Writer
	wide  int // width in runes; 0 means the terminal's width

	mu     sync.Mutex
	column int    // 0 at the start of a line
	status string // the status line on the screen; "" if there is none
}

// Options configure an [Output].
type Options struct {
	JSON    bool
	NoColor bool
	Dumb    bool // the terminal supports no control sequences
}

// New returns an output that writes results to stdout and notes and errors to stderr. It
// uses color and a status line only on a terminal.
func New(stdout, stderr io.Writer, o Options) *Output {
	live := IsTerminal(stdout) && !o.JSON && !o.Dumb
	return &Output{json: o.JSON, color: live && !o.NoColor, live: live, out: stdout, err: stderr}
}

// OnScreen returns an output for a part of a full-screen view. It formats for a
// terminal with the given width in runes.
func OnScreen(w io.Writer, wide int, color bool) *Output {
	return &Output{color: color, live: true, out: w, err: w, wide: wide}
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// JSON reports whether the output is JSON.
func (o *Output) JSON() bool { return o.json }

// width returns the width of a line in runes.
func (o *Output) width() int {
	if o.wide > 0 {
		return o.wide
	}
	if file, ok := o.out.(*os.File); ok && o.live {
		if w, _, err := term.GetSize(int(file.Fd())); err == nil && w > 20 {
			return w
		}
	}
	return 120
}

// Style is a color or text attribute. It has no effect without color.
type Style string

// Styles of text.
const (
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Style returns s in a style. s must be clean.
func (o *Output) Style(style Style, s string) string {
	if !o.color || s == "" {
		return s
	}
	return "\x1b[" + string(style) + "m" + s + "\x1b[0m"
}

// DiffLine returns a line of a diff in its color. line must be clean.
func (o *Output) DiffLine(line string) string {
	switch {
	case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		return o.Style(Bold, line)
	case strings.HasPrefix(line, "@@"):
		return o.Style(Cyan, line)
	case strings.HasPrefix(line, "+"):
		return o.Style(Green, line)
	case strings.HasPrefix(line, "-"):
		return o.Style(Red, line)
	}
	return line
}

// Line prints a line. The arguments must be clean.
func (o *Output) Line(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endLine()
	fmt.Fprintf(o.out, format+"\n", args...)
}

// Text prints s, which must be clean and may end within a line.
func (o *Output) Text(s string) {
	if s == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clearStatus()
	_, _ = io.WriteString(o.out, s)
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		o.column = len(s) - i - 1
	} else {
		o.column += len(s)
	}
}

// Value prints v as one line of JSON.
func (o *Output) Value(v any) error {
	line, err := marshal(v)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err = o.out.Write(line)
	return err
}

// Status shows a status line that the next output replaces. It does nothing if lines
// cannot be redrawn.
func (o *Output) Status(s string) {
	if !o.live {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.column > 0 {
		return // the cursor is within a line of text
	}
	o.clearStatus()
	if s != "" {
		fmt.Fprint(o.out, s)
		o.status = s
	}
}

// HasStatus reports whether Status has an effect.
func (o *Output) HasStatus() bool { return o.live }

func (o *Output) clearStatus() {
	if o.status != "" {
		fmt.Fprint(o.out, "\r\x1b[2K")
		o.status = ""
	}
}

func (o *Output) endLine() {
	o.clearStatus()
	if o.column > 0 {
		fmt.Fprintln(o.out)
		o.column = 0
	}
}

// Note prints a line on standard error, separate from the output for programs.
func (o *Output) Note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endLine()
	fmt.Fprintf(o.err, format+"\n", args...)
}

// Fail prints an error and its hint.
func (o *Output) Fail(err error) {
	p := ProblemOf(err)
	if p.Message == "" {
		return
	}
	if o.json {
		type inner struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Hint    string `json:"hint,omitempty"`
		}
		if line, err := marshal(map[string]inner{"error": {p.Code, p.Message, p.Hint}}); err == nil {
			_, _ = o.err.Write(line)
		}
		return
	}
	o.Note("%s %s", o.Style(Red, "error:"), strings.TrimSpace(Clean(p.Message)))
	if p.Hint != "" {
		o.Note("%s %s", o.Style(Cyan, "hint:"), strings.TrimSpace(Clean(p.Hint)))
	}
}

// Table prints rows in columns. The first row is the header. Cells must be clean and
// without color, because escape sequences would count as width.
func (o *Output) Table(rows [][]string) {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // cannot fail, because it writes to memory
	for i, line := range strings.Split(strings.TrimRight(b.String(), "\n"), "\n") {
		line = strings.TrimRight(line, " ")
		if i == 0 {
			line = o.Style(Dim, line)
		}
		o.Line("%s", line)
	}
}

// marshal returns v as one line of JSON with control characters escaped.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, r := range strings.TrimRight(b.String(), "\n") {
		if isControl(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// Took formats a duration in at most six runes.
func Took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// Ago formats how long ago something happened.
func Ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}
