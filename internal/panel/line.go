package panel

import (
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
)

// line is a text input. Pasted text may have several lines.
type line struct {
	label      string
	text       []rune
	cursor     int // cursor position
	mayBeEmpty bool
	send       func(text string) tea.Cmd
	keep       func(text string) // called with unsent text; nil discards it
	live       func(text string) // called on every change; may be nil
}

// changed calls live after a change.
func (l *line) changed() {
	if l.live != nil {
		l.live(strings.TrimSpace(string(l.text)))
	}
}

func newLine(label, text string, send func(string) tea.Cmd, keep func(string)) *line {
	return &line{label: label, text: []rune(text), cursor: len([]rune(text)), send: send, keep: keep}
}

func (l *line) insert(s string) {
	runes := []rune(s)
	l.text = slices.Insert(l.text, l.cursor, runes...)
	l.cursor += len(runes)
}

// write handles a key while text is being entered.
func (m *Model) write(key tea.KeyPressMsg) tea.Cmd {
	l := m.typed
	defer l.changed()
	switch key.String() {
	case "esc":
		if l.keep != nil {
			l.keep(string(l.text))
		}
		if l.live != nil {
			l.text = nil
		}
		m.typed = nil
	case "enter":
		text := strings.TrimSpace(string(l.text))
		if text == "" && !l.mayBeEmpty {
			m.notice = "Type something to send first."
			return nil
		}
		m.typed = nil
		return l.send(text)
	case "alt+enter", "shift+enter", "ctrl+j":
		l.insert("\n")
	case "backspace":
		l.cut(l.cursor-1, l.cursor)
	case "delete":
		l.cut(l.cursor, l.cursor+1)
	case "ctrl+w", "alt+backspace":
		l.cut(l.wordStart(), l.cursor)
	case "ctrl+u":
		l.cut(0, l.cursor)
	case "ctrl+k":
		l.cut(l.cursor, len(l.text))
	case "left":
		l.cursor = max(l.cursor-1, 0)
	case "right":
		l.cursor = min(l.cursor+1, len(l.text))
	case "home", "ctrl+a":
		l.cursor = 0
	case "end", "ctrl+e":
		l.cursor = len(l.text)
	default:
		l.insert(key.Text) // empty for keys without a character
	}
	return nil
}

// cut removes the runes from index from to index to.
func (l *line) cut(from, to int) {
	from, to = max(from, 0), min(to, len(l.text))
	if from < to {
		l.text = slices.Delete(l.text, from, to)
		l.cursor = from
	}
}

// wordStart returns the start of the word before the cursor.
func (l *line) wordStart() int {
	at := l.cursor
	for at > 0 && unicode.IsSpace(l.text[at-1]) {
		at--
	}
	for at > 0 && !unicode.IsSpace(l.text[at-1]) {
		at--
	}
	return at
}

// render returns the part of the line around the cursor that fits into wide columns, and
// the cursor's column in it.
func (l *line) render(wide int) (string, int) {
	shown := []rune(strings.NewReplacer("\n", "⏎", "\t", " ").Replace(string(l.text)))
	from := 0
	for from < l.cursor && width(string(shown[from:l.cursor])) >= wide {
		from++
	}
	return cutTo(string(shown[from:]), wide), width(string(shown[from:l.cursor]))
}
