package panel

import (
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
)

// line is what a person writes. What was pasted may have several lines.
type line struct {
	label      string
	text       []rune
	at         int // where the next rune goes
	mayBeEmpty bool
	send       func(text string) tea.Cmd
	keep       func(text string) // of what is not sent; nil forgets it
	live       func(text string) // is told of every change; nil is not
}

// changed says that it reads otherwise than before.
func (l *line) changed() {
	if l.live != nil {
		l.live(strings.TrimSpace(string(l.text)))
	}
}

func newLine(label, text string, send func(string) tea.Cmd, keep func(string)) *line {
	return &line{label: label, text: []rune(text), at: len([]rune(text)), send: send, keep: keep}
}

func (l *line) insert(s string) {
	runes := []rune(s)
	l.text = slices.Insert(l.text, l.at, runes...)
	l.at += len(runes)
}

// write says what follows from a key while something is being written.
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
			m.said = "There is nothing to send yet."
			return nil
		}
		m.typed = nil
		return l.send(text)
	case "alt+enter", "shift+enter", "ctrl+j":
		l.insert("\n")
	case "backspace":
		l.cut(l.at-1, l.at)
	case "delete":
		l.cut(l.at, l.at+1)
	case "ctrl+w", "alt+backspace":
		l.cut(l.word(), l.at)
	case "ctrl+u":
		l.cut(0, l.at)
	case "ctrl+k":
		l.cut(l.at, len(l.text))
	case "left":
		l.at = max(l.at-1, 0)
	case "right":
		l.at = min(l.at+1, len(l.text))
	case "home", "ctrl+a":
		l.at = 0
	case "end", "ctrl+e":
		l.at = len(l.text)
	default:
		l.insert(key.Text) // empty for a key that is no character
	}
	return nil
}

// cut takes out what is from one place to another.
func (l *line) cut(from, to int) {
	from, to = max(from, 0), min(to, len(l.text))
	if from < to {
		l.text = slices.Delete(l.text, from, to)
		l.at = from
	}
}

// word is where the word begins that ends where the cursor is.
func (l *line) word() int {
	at := l.at
	for at > 0 && unicode.IsSpace(l.text[at-1]) {
		at--
	}
	for at > 0 && !unicode.IsSpace(l.text[at-1]) {
		at--
	}
	return at
}

// drawn returns the part of the line around the cursor that fits, and how many
// columns the cursor is from its left.
func (l *line) drawn(wide int) (string, int) {
	shown := []rune(strings.NewReplacer("\n", "⏎", "\t", " ").Replace(string(l.text)))
	from := 0
	for from < l.at && width(string(shown[from:l.at])) >= wide {
		from++
	}
	return cutTo(string(shown[from:]), wide), width(string(shown[from:l.at]))
}
