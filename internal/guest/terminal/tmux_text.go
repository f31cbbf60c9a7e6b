package terminal

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Terminal is a session of tmux's as it was when it was asked for.
type Terminal struct {
	Name          string
	Created       time.Time
	Active        time.Time
	Attached      int // viewers
	Columns, Rows int
	PID           int // of the program in front
	Dead          bool
	ExitCode      *int // of a dead one; nil where tmux has not learned it
	Command       string
	Dir           string
}

// listFormat asks tmux for a terminal's fields, one line each. Those that may
// hold anything come last.
const listFormat = "#{session_name}\t#{session_created}\t#{session_activity}\t#{session_attached}\t" +
	"#{window_width}\t#{window_height}\t#{pane_pid}\t#{pane_dead}\t#{pane_dead_status}\t#{pane_current_command}\t#{pane_current_path}"

const listFields = 11

// keyForm are names of keys, with what is held down meanwhile.
var keyForm = regexp.MustCompile(`^([CMS]-)*([!-~]|[A-Za-z][A-Za-z0-9]{1,15})$`)

// parseList reads what tmux says to listFormat. A line that is something else
// is left out: a folder's name can hold a line break.
func parseList(out []byte) []Terminal {
	var list []Terminal
	for line := range strings.Lines(strings.ToValidUTF8(string(out), "\uFFFD")) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", listFields)
		if len(f) != listFields || f[0] == "" {
			continue
		}
		created, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		list = append(list, Terminal{
			Name: f[0], Created: time.Unix(created, 0), Active: time.Unix(int64(number(f[2])), 0),
			Attached: number(f[3]), Columns: number(f[4]), Rows: number(f[5]), PID: number(f[6]),
			Dead: f[7] == "1", ExitCode: known(f[8]), Command: f[9], Dir: f[10],
		})
	}
	slices.SortFunc(list, func(a, b Terminal) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// known is nil where tmux has nothing to say.
func known(s string) *int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil
	}
	return &n
}

// number is 0 where tmux has nothing to say.
func number(s string) int {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

// pieces cuts text into pieces of at most so many bytes, between characters.
func pieces(text string, most int) []string {
	var list []string
	for len(text) > most {
		cut := most
		for cut > most-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
			cut--
		}
		list, text = append(list, text[:cut]), text[cut:]
	}
	if text != "" {
		list = append(list, text)
	}
	return list
}
