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

// page is a scrollable text shown over the list or a conversation.
type page struct {
	kind     pageKind
	agentID  string
	question client.Approval
	title    string
	rows     [][2]string // keys and descriptions, shown before the text
	text     []string    // clean, with colors
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

// exact is the prefix of lines whose whitespace is preserved.
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

// endVisible reports whether the end of the page is on the screen.
func (m *Model) endVisible() bool { return m.page.top+m.room() >= len(m.page.lines(m.wide)) }

// showDiff fills the changes page.
func (m *Model) showDiff(msg diffRead) {
	p := m.page
	switch {
	case msg.err != nil:
		p.text = m.problemLines(m.Problem(msg.err))
	case msg.diff.Diff == "":
		p.text = []string{"No changes."}
	default:
		p.text = nil
		for line := range strings.Lines(cli.Exact(msg.diff.Diff)) {
			p.text = append(p.text, m.paint.DiffLine(tabbed(strings.TrimSuffix(line, "\n"))))
		}
	}
	if msg.diff.Truncated {
		p.text = append(p.text, "", "The diff is truncated: it is too long to show in full. Fetch the branch to see all of it.")
	}
}

// questionRead is the result of readQuestion.
type questionRead struct {
	question client.Approval
	err      error
}

// readQuestion fetches a request whose details the list hides.
func (m *Model) readQuestion(q client.Approval) tea.Cmd {
	ctx, c := m.ctx, m.client
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, pollWithin)
		defer cancel()
		whole, err := c.Approval(ctx, q.AgentID, q.ID)
		return questionRead{whole, err}
	}
}

// questionRead shows the request, unless another page has been opened meanwhile.
func (m *Model) questionRead(msg questionRead) {
	switch {
	case msg.err != nil:
		m.notice, m.bad = cli.Line(m.Problem(msg.err).Message, 0), true
	case m.page == nil:
		m.page = m.questionPage(msg.question)
	}
}

// questionPage returns a page with the whole request: the approver must see all
// of it.
func (m *Model) questionPage(q client.Approval) *page {
	block := func(s string) []string { return strings.Split(tabbed(strings.TrimSpace(cli.Exact(s))), "\n") }
	head := "The agent asks to use " + clean(q.Tool) + ":"
	switch {
	case len(q.Questions) > 0:
		head = "The agent asks:"
	case q.Tool == client.PlanTool:
		head = "The agent proposes a plan:"
	}
	text := []string{m.paint.Style(cli.Yellow, head), ""}
	for _, line := range block(q.Subject) {
		text = append(text, exact+line)
	}
	text = append(text, "")
	for _, line := range q.Lines() {
		text = append(text, exact+tabbed(cli.Exact(line)))
	}
	if q.Folder != "" {
		text = append(text, m.paint.Style(cli.Dim, "Folder:"), exact+cli.ExactLine(q.Folder))
	}
	for _, row := range [][2]string{{"A subagent asks", q.Subagent}, {"The agent says", q.Reason}, {"Asked because", q.Why}} {
		if row[1] != "" {
			text = append(text, m.paint.Style(cli.Dim, row[0]+": ")+clean(row[1]))
		}
	}
	if len(q.Entries) > 0 {
		text = append(text, m.paint.Style(cli.Dim, "Rules that Y adds for this agent and A for all your agents:"))
		for _, rule := range q.Entries {
			text = append(text, exact+cli.ExactLine(rule)) // never wrapped
		}
	}
	if q.Change != "" {
		switch q.Tool {
		case client.PlanTool:
		case client.PullRequestTool:
			text = append(text, m.paint.Style(cli.Dim, "Description:"))
		default:
			text = append(text, m.paint.Style(cli.Dim, "Change:"))
		}
		for _, line := range block(q.Change) {
			text = append(text, exact+line)
		}
	}
	if q.Until != nil {
		text = append(text, m.paint.Style(cli.Dim, "Denied automatically at: ")+q.Until.Local().Format(time.DateTime))
	}
	return &page{kind: questionPage, agentID: q.AgentID, question: q, title: "Request", text: text}
}

func (m *Model) onQuestion(key string) tea.Cmd {
	q := m.page.question
	if len(q.Questions) > 0 && key != "n" {
		if key == "y" || key == "enter" {
			m.typed = newLine("answer (a number or text"+manyWords(q)+")", "", func(text string) tea.Cmd { return m.say(q, text) }, nil)
		}
		return nil
	}
	switch key {
	case "y", "Y", "A":
		if !m.endVisible() {
			m.notice = "Read to the end first (press space)."
			return nil
		}
		switch key {
		case "Y":
			return m.answer(q, client.Answer{Decision: client.AllowAgent}, "Allowed for this agent, with similar calls.")
		case "A":
			return m.answer(q, client.Answer{Decision: client.AllowAlways}, "Allowed for all your agents, with similar calls. The rules were added to your permissions.json.")
		}
		return m.answer(q, client.Answer{Decision: client.AllowOnce}, "Allowed once.")
	case "n":
		m.typed = newLine("deny, with an optional message", "", func(text string) tea.Cmd {
			return m.answer(q, client.Answer{Decision: client.Deny, Message: text}, "Denied.")
		}, nil)
		m.typed.mayBeEmpty = true
	}
	return nil
}

// manyWords explains how to answer several questions on one line.
func manyWords(q client.Approval) string {
	if len(q.Questions) < 2 {
		return ""
	}
	return "; for several questions " + clean(q.Questions[0].ID) + "=1; " + clean(q.Questions[1].ID) + "=…"
}

// say answers an agent's own questions with the typed text.
func (m *Model) say(q client.Approval, typed string) tea.Cmd {
	parts := []string{typed}
	if len(q.Questions) > 1 {
		parts = strings.Split(typed, ";")
	}
	in, err := q.Answer(parts...)
	if err != nil {
		m.notice = err.Error()
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

// keysWide is the width of the key column in the help.
const keysWide = 20

// keys is the content of the help page. The keys at the bottom come from hints.
var keys = [][2]string{
	{"↑ ↓, k j", "previous and next agent; in a text, scroll by a line"},
	{"PgUp PgDn, space", "scroll by a screen"},
	{"g G", "first and last; G follows a conversation"},
	{"Enter, Esc", "open an agent; go back"},
	{"/", "search names, repositories and activity; Esc shows all"},
	{"n", "start a new agent: its repository, then its task"},
	{"a", "answer a request: y once, Y for this agent, A always, n denies; for a question, y answers and n skips"},
	{"f", "send a follow-up, queued while the agent is running; Esc keeps the text"},
	{"d", "show changes"},
	{"t", "open a shared terminal in its machine; Ctrl-B D detaches"},
	{"p", "pause or resume"},
	{"s", "stop the run"},
	{"x", "archive"},
	{"o", "show its dashboard address"},
	{"?", "this help"},
	{"q, Ctrl-C", "quit; agents keep running"},
}

func (m *Model) help() *page {
	p := &page{kind: helpPage, title: "Keys"}
	for _, k := range keys {
		p.rows = append(p.rows, [2]string{"  " + m.paint.Style(cli.Bold, fit(k[0], keysWide-2)), k[1]})
	}
	p.text = []string{"", "Everything here is also a command: see `aloft --help`."}
	return p
}
