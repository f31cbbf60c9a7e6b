package terminal

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/terminal"
)

// listFormat makes tmux print a terminal's fields, one terminal per line.
// Fields that may contain anything come last.
const listFormat = "#{session_name}\t#{session_created}\t#{session_activity}\t#{session_attached}\t" +
	"#{window_width}\t#{window_height}\t#{pane_pid}\t#{pane_dead}\t#{pane_dead_status}\t#{pane_current_command}\t#{pane_current_path}"

const listFields = 11

// keyForm matches key names with optional modifiers.
var keyForm = regexp.MustCompile(`^([CMS]-)*([!-~]|[A-Za-z][A-Za-z0-9]{1,15})$`)

// parseList parses tmux's output for listFormat. It skips invalid lines: a
// folder's name may contain a line break.
func parseList(out []byte) []terminal.Terminal {
	var list []terminal.Terminal
	for line := range strings.Lines(strings.ToValidUTF8(string(out), "\uFFFD")) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", listFields)
		if len(f) != listFields || f[0] == "" {
			continue
		}
		created, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		list = append(list, terminal.Terminal{
			Name: f[0], Created: time.Unix(created, 0), Active: time.Unix(int64(number(f[2])), 0),
			Attached: number(f[3]), Columns: number(f[4]), Rows: number(f[5]), PID: number(f[6]),
			Dead: f[7] == "1", ExitCode: parseNumber(f[8]), Command: f[9], Dir: f[10],
		})
	}
	slices.SortFunc(list, func(a, b terminal.Terminal) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// parseNumber returns nil if tmux printed nothing.
func parseNumber(s string) *int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil
	}
	return &n
}

// number returns 0 if tmux printed nothing.
func number(s string) int {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

// pieces splits text between characters into pieces of at most limit bytes.
func pieces(text string, limit int) []string {
	var list []string
	for len(text) > limit {
		cut := limit
		for cut > limit-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
			cut--
		}
		list, text = append(list, text[:cut]), text[cut:]
	}
	if text != "" {
		list = append(list, text)
	}
	return list
}
