package panel

import (
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"aloft/internal/cli"
)

// Smallest window in which the panel is drawn.
const (
	leastWide = 30
	leastHigh = 8
)

// frame is the number of lines around the content: the title and a blank line above, a
// message and the keys below.
const frame = 4

// room returns the number of lines for the content.
func (m *Model) room() int { return max(m.high-frame, 1) }

// View draws the panel.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(m.Lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "aloft"
	if m.typed != nil && m.wide >= leastWide && m.high >= leastHigh {
		_, at := m.typed.render(m.wide - 3)
		v.Cursor = tea.NewCursor(2+at, m.high-2)
	}
	return v
}

// Lines returns the lines of the screen: as many as the screen is high, and none wider
// than the screen.
func (m *Model) Lines() []string {
	if m.wide < leastWide || m.high < leastHigh {
		return []string{cutTo("The window is too small.", m.wide)}
	}
	var title string
	var middle []string
	switch {
	case m.page != nil && m.page.kind == helpPage:
		title, middle = m.paint.Style(cli.Bold, m.page.title), m.pageLines(m.room())
	case m.page != nil:
		title, middle = m.paint.Style(cli.Bold, m.page.title+"  ")+m.head(m.current()), m.pageLines(m.room())
	case m.open != nil:
		title, middle = m.head(m.current()), m.conversationLines(m.room())
	default:
		title, middle = m.listTitle(), m.listLines(m.room())
	}
	out := append([]string{title, ""}, middle...)
	for len(out) < m.high-2 {
		out = append(out, "")
	}
	out = append(out[:m.high-2], m.saying(), m.hints())
	for i := range out {
		out[i] = cutTo(out[i], m.wide)
	}
	return out
}

// saying returns the line above the keys: text input, a confirmation, a result or an
// error.
func (m *Model) saying() string {
	switch {
	case m.typed != nil:
		text, _ := m.typed.render(m.wide - 3)
		return m.paint.Style(cli.Cyan, "> ") + text
	case m.sure != nil:
		return m.paint.Style(cli.Yellow, m.sure.ask)
	case m.notice != "" && m.bad:
		return m.paint.Style(cli.Red, "! ") + m.notice
	case m.notice != "":
		return m.notice
	case m.trouble != nil && m.loaded:
		return m.paint.Style(cli.Red, "! ") + "Reconnecting; this may be out of date. " + clean(m.trouble.Message)
	case m.page == nil && m.open != nil && m.asks(m.open.agentID) != nil:
		q := m.asks(m.open.agentID)
		return m.paint.Style(cli.Yellow, "? ") + clean(cli.Exact(requestSummary(*q)))
	case m.page == nil && m.open != nil && m.open.up > 0:
		return m.paint.Style(cli.Dim, "G: jump to the newest")
	}
	return ""
}

// hints returns the keys available now.
func (m *Model) hints() string {
	hint := func(pairs ...string) string {
		var parts []string
		used := 0
		for i := 0; i+1 < len(pairs); i += 2 { // show only hints that fit
			if used += width(pairs[i]+" "+pairs[i+1]) + 2; used > m.wide+2 {
				break
			}
			parts = append(parts, m.paint.Style(cli.Bold, pairs[i])+" "+m.paint.Style(cli.Dim, pairs[i+1]))
		}
		return strings.Join(parts, "  ")
	}
	a := m.current()
	switch {
	case m.typed != nil:
		return hint("Enter", m.typed.label, "Esc", "cancel")
	case m.sure != nil:
		return hint("y", "yes", "n", "no")
	case m.page != nil && m.page.kind == questionPage:
		return hint("y", "allow once", "n", "deny", "Esc", "back", "Y", "for this agent", "A", "always", "↑↓", "read")
	case m.page != nil:
		return hint("↑↓", "read", "space", "next", "Esc", "back")
	case a == nil && m.search != "" && m.open == nil:
		return hint("Esc", "all agents", "/", "search", "q", "quit", "?", "help")
	case a == nil && m.open == nil:
		return hint("n", "new agent", "q", "quit", "?", "help")
	case a == nil:
		return hint("Esc", "back", "q", "quit", "?", "help")
	}
	middle := []string{"f", "reply", "d", "diff", "t", "shell", "p", "pause", "s", "stop", "x", "archive"}
	if a.Paused {
		middle[7] = "resume"
	}
	first := []string{"Enter", "open", "?", "help", "q", "quit"}
	if m.open != nil {
		first = []string{"Esc", "back", "?", "help"}
	}
	if m.asks(a.ID) != nil {
		first = append(first, "a", "answer")
	}
	if m.open == nil {
		first = append(first, "n", "new", "/", "search")
	}
	return hint(append(first, middle...)...)
}

// problemLines returns an error and its hint.
func (m *Model) problemLines(p *cli.Problem) []string {
	out := fold(m.paint.Style(cli.Red, "error: ")+clean(p.Message), m.wide-2)
	if p.Hint != "" {
		out = append(out, fold(m.paint.Style(cli.Cyan, "hint: ")+clean(p.Hint), m.wide-2)...)
	}
	for i := range out {
		out[i] = "  " + out[i]
	}
	return out
}

// clean returns s without terminal control, on one line.
func clean(s string) string { return cli.Line(s, 0) }

// tabbed replaces tabs in s, which must be clean, by spaces.
func tabbed(s string) string { return strings.ReplaceAll(s, "\t", "    ") }

// width returns the number of columns that s occupies.
func width(s string) int { return ansi.StringWidth(s) }

// cutTo truncates s to wide columns.
func cutTo(s string, wide int) string { return ansi.Truncate(s, max(wide, 0), "…") }

// fit pads or truncates s to wide columns.
func fit(s string, wide int) string {
	s = cutTo(s, wide)
	return s + strings.Repeat(" ", max(wide-width(s), 0))
}

// fold wraps a line between words to wide columns.
func fold(s string, wide int) []string {
	s = tabbed(s)
	out := strings.Split(ansi.Wrap(s, max(wide, 1), ""), "\n")
	for _, line := range out {
		if width(line) > wide { // Wrap can exceed the width by one column before a hyphen
			return chop(s, wide)
		}
	}
	return endColors(out)
}

// chop breaks a line anywhere to fit wide columns without dropping characters.
func chop(s string, wide int) []string {
	return endColors(strings.Split(ansi.Hardwrap(tabbed(s), max(wide, 1), true), "\n"))
}

// endColors ends colors at line breaks.
func endColors(lines []string) []string {
	for i, line := range lines {
		if strings.Contains(line, "\x1b") {
			lines[i] += "\x1b[0m"
		}
	}
	return lines
}
