package panel

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"aloft/internal/cli"
	"aloft/internal/client"
)

type pageKind int

const (
	helpPage pageKind = iota
	diffPage
	questionPage
)

// page is a text that lies over the rest, and may be longer than the screen.
type page struct {
	kind     pageKind
	agentID  string
	question client.Approval
	title    string
	rows     [][2]string // keys and what they do, before the text
	text     []string    // clean, with colours
	top      int         // first line on the screen
}

func (m *Model) onPage(key string) tea.Cmd {
	p, room := m.page, m.room()
	switch key {
	case "esc", "q", "left", "h", "?":
		m.page = nil
		return nil
	case "up", "k":
		p.top--
	case "down", "j":
		p.top++
	case "pgup":
		p.top -= room - 1
	case "pgdown", "space":
		p.top += room - 1
	case "home", "g":
		p.top = 0
	case "end", "G":
		p.top = len(p.lines(m.wide))
	default:
		if p.kind == questionPage {
			return m.onQuestion(key)
		}
	}
	p.top = max(min(p.top, len(p.lines(m.wide))-room), 0)
	return nil
}

// exact begins a line that is shown to the last blank.
const exact = "    "

func (p *page) lines(wide int) []string {
	var out []string
	for _, row := range p.rows {
		for i, words := range fold(row[1], max(wide-keysWide, leastWide-keysWide)) {
			if i > 0 {
				row[0] = strings.Repeat(" ", keysWide)
			}
			out = append(out, row[0]+words)
		}
	}
	for _, line := range p.text {
		if p.kind == diffPage || strings.HasPrefix(line, exact) {
			out = append(out, chop(line, wide)...)
		} else {
			out = append(out, fold(line, wide)...)
		}
	}
	return out
}

func (m *Model) pageLines(high int) []string {
	lines := m.page.lines(m.wide)
	top := max(min(m.page.top, len(lines)-high), 0)
	return lines[top:min(top+high, len(lines))]
}

// seen reports whether the end of the page is on the screen.
func (m *Model) seen() bool { return m.page.top+m.room() >= len(m.page.lines(m.wide)) }

// showDiff fills the page of changes.
func (m *Model) showDiff(msg diffRead) {
	p := m.page
	switch {
	case msg.err != nil:
		p.text = m.problemLines(m.Problem(msg.err))
	case msg.diff.Diff == "":
		p.text = []string{"It has changed nothing."}
	default:
		p.text = nil
		for line := range strings.Lines(cli.Clean(msg.diff.Diff)) {
			p.text = append(p.text, m.paint.DiffLine(tabbed(strings.TrimSuffix(line, "\n"))))
		}
	}
	if msg.diff.Truncated {
		p.text = append(p.text, "", "There is more: the diff is too long to be sent whole. Fetch the branch to see all of it.")
	}
}

// questionRead is a question that the list leaves out.
type questionRead struct {
	question client.Approval
	err      error
}

// readQuestion reads a question that the list leaves out, to show it.
func (m *Model) readQuestion(q client.Approval) tea.Cmd {
	ctx, c := m.ctx, m.client
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, pollWithin)
		defer cancel()
		whole, err := c.Approval(ctx, q.AgentID, q.ID)
		return questionRead{whole, err}
	}
}

// questionRead shows the question, unless another page has been opened meanwhile.
func (m *Model) questionRead(msg questionRead) {
	switch {
	case msg.err != nil:
		m.said, m.bad = cli.Line(m.Problem(msg.err).Message, 0), true
	case m.page == nil:
		m.page = m.questionPage(msg.question)
	}
}

// questionPage shows a question whole: who allows it is to have seen all of it.
func (m *Model) questionPage(q client.Approval) *page {
	block := func(s string) []string { return strings.Split(tabbed(strings.TrimSpace(cli.Clean(s))), "\n") }
	head := "It asks to use " + clean(q.Tool) + ":"
	switch {
	case len(q.Questions) > 0:
		head = "It asks:"
	case q.Tool == client.PlanTool:
		head = "It has a plan:"
	}
	text := []string{m.paint.Style(cli.Yellow, head), ""}
	for _, line := range block(q.Subject) {
		text = append(text, exact+line)
	}
	text = append(text, "")
	for _, line := range q.Lines() {
		text = append(text, exact+tabbed(cli.Clean(line)))
	}
	for _, row := range [][2]string{{"A subagent asks", q.Subagent}, {"The agent says", q.Reason}, {"Asked because", q.Why}} {
		if row[1] != "" {
			text = append(text, m.paint.Style(cli.Dim, row[0]+": ")+clean(row[1]))
		}
	}
	if len(q.Entries) > 0 {
		text = append(text, m.paint.Style(cli.Dim, "Rules that Y allows for this agent, and A for all of yours:"))
		for _, rule := range q.Entries {
			text = append(text, exact+clean(rule)) // one rule, one line
		}
	}
	if q.Change != "" {
		if q.Tool != client.PlanTool {
			text = append(text, m.paint.Style(cli.Dim, "Would stand there:"))
		}
		for _, line := range block(q.Change) {
			text = append(text, exact+line)
		}
	}
	if q.Until != nil {
		text = append(text, m.paint.Style(cli.Dim, "Counts as denied after: ")+q.Until.Local().Format(time.DateTime))
	}
	return &page{kind: questionPage, agentID: q.AgentID, question: q, title: "A question", text: text}
}

func (m *Model) onQuestion(key string) tea.Cmd {
	q := m.page.question
	if len(q.Questions) > 0 && key != "n" {
		if key == "y" || key == "enter" {
			m.typed = newLine("your answer: a number, or words"+manyWords(q), "", func(text string) tea.Cmd { return m.say(q, text) }, nil)
		}
		return nil
	}
	switch key {
	case "y", "Y", "A":
		if !m.seen() {
			m.said = "There is more to read: go to its end first (space)."
			return nil
		}
		switch key {
		case "Y":
			return m.answer(q, client.Answer{Decision: client.AllowAgent}, "Allowed, and calls like it by this agent.")
		case "A":
			return m.answer(q, client.Answer{Decision: client.AllowAlways}, "Allowed, and calls like it by all of your agents: your permissions.json says so now.")
		}
		return m.answer(q, client.Answer{Decision: client.AllowOnce}, "Allowed, this once.")
	case "n":
		m.typed = newLine("a denial, with your words or none", "", func(text string) tea.Cmd {
			return m.answer(q, client.Answer{Decision: client.Deny, Message: text}, "Denied.")
		}, nil)
		m.typed.mayBeEmpty = true
	}
	return nil
}

// manyWords say how several questions are answered on one line.
func manyWords(q client.Approval) string {
	if len(q.Questions) < 2 {
		return ""
	}
	return "; several as " + clean(q.Questions[0].ID) + "=1; " + clean(q.Questions[1].ID) + "=…"
}

// say answers a question of the agent's own by what was typed.
func (m *Model) say(q client.Approval, typed string) tea.Cmd {
	parts := []string{typed}
	if len(q.Questions) > 1 {
		parts = strings.Split(typed, ";")
	}
	in, err := q.Answer(parts...)
	if err != nil {
		m.said = err.Error()
		return nil
	}
	return m.answer(q, in, "Answered.")
}

func (m *Model) answer(q client.Approval, in client.Answer, did string) tea.Cmd {
	m.page = nil
	return m.perform(act{agentID: q.AgentID, did: did, do: func(ctx context.Context, c Client) error {
		return c.AnswerApproval(ctx, q.AgentID, q.ID, in)
	}})
}

// keysWide is how many columns the keys take in the help.
const keysWide = 20

// keys are those of the help. What stands at the bottom is in hints.
var keys = [][2]string{
	{"↑ ↓, k j", "the agent before, the next; in a text, a line"},
	{"PgUp PgDn, space", "a screen"},
	{"g G", "the first, the last; a conversation stays at its newest"},
	{"Enter, Esc", "opens an agent, goes back"},
	{"/", "searches: names, repositories, what they do; Esc shows all"},
	{"n", "a new agent: its repository, then its task"},
	{"a", "what it asks: y once, Y for this agent, A always, n denies; y answers a question, n leaves it"},
	{"f", "a follow-up, queued while it works; Esc keeps the words"},
	{"d", "what it has changed"},
	{"t", "a terminal in its machine, shared; Ctrl-B D comes back"},
	{"p", "pauses it, or lets it go on"},
	{"s", "stops what it does"},
	{"x", "files it away"},
	{"o", "its address in the dashboard"},
	{"?", "this help"},
	{"q, Ctrl-C", "leaves; agents go on"},
}

func (m *Model) help() *page {
	p := &page{kind: helpPage, title: "Keys"}
	for _, k := range keys {
		p.rows = append(p.rows, [2]string{"  " + m.paint.Style(cli.Bold, fit(k[0], keysWide-2)), k[1]})
	}
	p.text = []string{"", "All of it is a command too: `aloft --help` names them."}
	return p
}
