package panel

import (
	"bytes"
	"context"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/google/uuid"

	"aloft/internal/cli"
	"aloft/internal/client"
)

const (
	keptLines  = 20_000   // maximum number of lines of a conversation that are kept, the newest
	longLine   = 64 << 10 // bytes after which an unfinished line is broken
	transcript = 400      // width in runes at which the transcript cuts call summaries
)

// conversation is the view of an open agent.
type conversation struct {
	agentID     string
	feed        *feed
	hasEvents   bool         // an event has arrived
	feedProblem *cli.Problem // why the feed ended

	screen *bytes.Buffer // output of t that is not in lines yet
	t      *cli.Transcript
	lines  []string // complete lines of output
	tail   string
	folded folded
	up     int // lines scrolled up from the end; 0 follows the newest
}

// folded caches lines wrapped to a width.
type folded struct {
	wide, wrapped int // width, and the number of lines wrapped so far
	lines         []string
}

// converse opens an agent.
func (m *Model) converse(agentID string) tea.Cmd {
	f, read := m.newFeed(agentID)
	screen := &bytes.Buffer{}
	m.chosen = agentID
	m.open = &conversation{agentID: agentID, feed: f, screen: screen, t: cli.NewTranscript(cli.OnScreen(screen, transcript, m.Color))}
	return read
}

// leave closes the conversation.
func (m *Model) leave() {
	m.open.feed.cancel()
	m.open = nil
}

// showEvents shows new events. Events that change the agent's state trigger a poll.
func (m *Model) showEvents(events []client.Event) tea.Cmd {
	c := m.open
	cmds := []tea.Cmd{c.feed.next}
	c.hasEvents = true
	before := len(c.foldedLines(m.wide))
	news := false
	for _, e := range events {
		c.t.Show(e)
		if e.Kind == "run.ended" && c.t.Ended != nil && c.t.Ended.Failure != nil {
			m.showFailure(c.t.Ended)
		}
		switch e.Kind {
		case "approval.asked", "approval.answered", "run.created", "run.ended":
			news = true
		}
	}
	c.take()
	if c.up > 0 { // keep the scroll position
		c.up += len(c.foldedLines(m.wide)) - before
	}
	if news {
		cmds = append(cmds, m.poll(false))
	}
	return tea.Batch(cmds...)
}

// showFailure prints why a run failed, and the hint.
func (m *Model) showFailure(end *cli.RunEnd) {
	m.open.take()
	m.open.lines = append(m.open.lines, m.paint.Style(cli.Red, "error: ")+clean(end.Failure.Message))
	if end.Hint != "" {
		m.open.lines = append(m.open.lines, m.paint.Style(cli.Cyan, "hint: ")+clean(end.Hint))
	}
}

// take moves complete lines of output from screen to lines.
func (c *conversation) take() {
	parts := strings.Split(c.tail+c.screen.String(), "\n")
	c.screen.Reset()
	c.lines = append(c.lines, parts[:len(parts)-1]...)
	c.tail = parts[len(parts)-1]
	if len(c.tail) > longLine {
		c.lines, c.tail = append(c.lines, c.tail), ""
	}
	if over := len(c.lines) - keptLines; over > keptLines/10 {
		c.lines = append([]string(nil), c.lines[over:]...)
		c.folded = folded{}
	}
}

// foldedLines returns the conversation wrapped to wide columns.
func (c *conversation) foldedLines(wide int) []string {
	f := &c.folded
	if f.wide != wide {
		*f = folded{wide: wide}
	}
	for ; f.wrapped < len(c.lines); f.wrapped++ {
		f.lines = append(f.lines, fold(c.lines[f.wrapped], wide)...)
	}
	if c.tail == "" {
		return f.lines
	}
	return append(f.lines[:len(f.lines):len(f.lines)], fold(c.tail, wide)...)
}

func (m *Model) onConversation(key string) tea.Cmd {
	c, room := m.open, m.room()
	switch key {
	case "esc", "left", "h":
		m.leave()
	case "q":
		return tea.Quit
	case "up", "k":
		c.up++
	case "down", "j":
		c.up--
	case "pgup":
		c.up += room - 1
	case "pgdown", "space":
		c.up -= room - 1
	case "home", "g":
		c.up = len(c.foldedLines(m.wide))
	case "end", "G":
		c.up = 0
	default:
		return m.onAgent(key)
	}
	c.up = max(min(c.up, len(c.foldedLines(m.wide))-room), 0)
	return nil
}

// onAgent handles keys that act on an agent, both in the list and in a conversation.
func (m *Model) onAgent(key string) tea.Cmd {
	a := m.current()
	if a == nil || m.client == nil {
		return nil
	}
	id, runID := a.ID, a.LatestRunID
	works := a.RunStatus == "CREATING" || a.RunStatus == "RUNNING"
	switch key {
	case "a":
		switch q := m.asks(id); {
		case q == nil:
			m.notice = "This agent is not waiting for an answer."
		case q.Hidden:
			return m.readQuestion(*q)
		default:
			m.page = m.questionPage(*q)
		}
	case "f":
		label := "send to “" + cutTo(clean(a.Name), 40) + "”"
		if works {
			label += " (queued)"
		}
		m.typed = newLine(label, m.drafts[id].text, func(text string) tea.Cmd { return m.followUp(id, text, works) },
			func(text string) { m.drafts[id] = m.drafts[id].withText(text) })
	case "x":
		m.sure = &act{
			agentID: id, did: "Archived. Restore it with `aloft agent unarchive " + clean(id) + "`.", ask: "Archive “" + cutTo(clean(a.Name), 40) + "” and stop its run?",
			do: func(ctx context.Context, c Client) error { return c.Archive(ctx, id) },
		}
	case "o":
		m.notice = "Dashboard: " + clean(a.URL)
	case "s":
		if !works {
			m.notice = "This agent is not running."
			return nil
		}
		m.sure = &act{
			agentID: id, did: "Stopped. Its machine and its work are kept.", ask: "Stop “" + cutTo(clean(a.Name), 50) + "”?",
			do: func(ctx context.Context, c Client) error { return c.Cancel(ctx, id, runID) },
		}
	case "p":
		switch {
		case a.Paused:
			return m.perform(act{agentID: id, did: "Resumed.", do: func(ctx context.Context, c Client) error { return c.Resume(ctx, id) }})
		case works:
			return m.perform(act{agentID: id, did: "Paused before its next step. Press p to resume.", do: func(ctx context.Context, c Client) error { return c.Pause(ctx, id) }})
		default:
			m.notice = "This agent is not running."
		}
	case "d":
		m.page = &page{kind: diffPage, agentID: id, title: "Changes", text: []string{"Loading changes…"}}
		return m.readDiff(id)
	case "t":
		return m.attach(id)
	}
	return nil
}

// answeredSure runs the pending action if key confirms it.
func (m *Model) answeredSure(key string) tea.Cmd {
	a := *m.sure
	m.sure = nil
	if key != "y" && key != "enter" {
		return nil
	}
	return m.perform(a)
}

// draft is an unsent follow-up. Its idempotency key makes resending it safe.
type draft struct{ text, key string }

func (d draft) withText(text string) draft {
	if d.text == text && d.key != "" {
		return d
	}
	return draft{text, uuid.NewString()}
}

// followUp sends a prompt, or queues it while the agent is running. The draft is kept
// until the server has accepted it.
func (m *Model) followUp(id, text string, works bool) tea.Cmd {
	d := m.drafts[id].withText(text)
	m.drafts[id] = d
	a := act{agentID: id, did: "Sent.", sends: true, do: func(ctx context.Context, c Client) error {
		_, err := c.CreateRun(ctx, id, client.Prompt{Text: d.text}, d.key)
		return err
	}}
	if works {
		a.did = "Queued. It starts when the agent is idle."
		a.do = func(ctx context.Context, c Client) error {
			_, err := c.QueuePrompt(ctx, id, client.Prompt{Text: d.text}, d.key)
			return err
		}
	}
	return m.perform(a)
}

// head returns the title of a conversation and of an agent's pages.
func (m *Model) head(a *client.Agent) string {
	if a == nil {
		return m.paint.Style(cli.Bold, "This agent is no longer in the list")
	}
	word, style := agentStatus(*a)
	s := m.paint.Style(cli.Bold, fit(clean(a.Name), min(max(m.wide/2, 10), max(width(clean(a.Name)), 1)))) + "  " + m.paint.Style(style, word)
	if of := a.Limited(); of != "" {
		s += m.paint.Style(cli.Dim, "  "+of)
	}
	if doing := clean(m.activity(*a)); doing != "" {
		s += m.paint.Style(cli.Dim, "  "+doing)
	}
	return s
}

func (m *Model) conversationLines(high int) []string {
	c := m.open
	lines := c.foldedLines(m.wide)
	if len(lines) == 0 && !c.hasEvents && c.feedProblem == nil {
		return []string{"", "  Loading the conversation…"}
	}
	if c.feedProblem != nil {
		lines = append(append(lines[:len(lines):len(lines)], ""), m.problemLines(c.feedProblem)...)
	}
	end := max(len(lines)-c.up, min(high, len(lines)))
	return lines[max(end-high, 0):end]
}
