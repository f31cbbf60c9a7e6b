package panel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// failureFresh is how long a failed run is counted in the panel's title.
const failureFresh = 24 * time.Hour

// looks maps list statuses to colors.
var looks = map[client.ListStatus]cli.Style{
	client.AsksYou: cli.Yellow, client.Paused: cli.Yellow, client.Starting: cli.Cyan, client.Working: cli.Cyan, client.HasFinished: cli.Green, client.HasFailed: cli.Red, client.HasExpired: cli.Red,
}

// agentStatus returns an agent's list status and its color.
func agentStatus(a client.Agent) (string, cli.Style) {
	s := a.ListStatus()
	if look, ok := looks[s]; ok {
		return string(s), look
	}
	return string(s), cli.Dim
}

// justFailed reports whether the agent's latest run failed within failureFresh.
func justFailed(a client.Agent, now time.Time) bool {
	s := a.ListStatus()
	return (s == client.HasFailed || s == client.HasExpired) && now.Sub(a.UpdatedAt) < failureFresh
}

// listed returns the agents that match the search: loaded agents that match, and the
// server's results.
func (m *Model) listed() []client.Agent {
	words := strings.Fields(strings.ToLower(m.search))
	if len(words) == 0 {
		return m.agents
	}
	var out []client.Agent
	for _, a := range m.agents {
		word, _ := agentStatus(a)
		text := []string{a.ID, a.Name, word, m.activity(a)}
		for _, r := range a.Repos {
			text = append(text, r.URL)
		}
		all := strings.ToLower(strings.Join(text, "\n"))
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) }) {
			out = append(out, a)
		}
	}
	if m.foundFor != m.search {
		return out
	}
	for _, a := range m.found {
		if !slices.ContainsFunc(out, func(b client.Agent) bool { return a.ID == b.ID }) {
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b client.Agent) int { return cmp.Compare(asksLast(a), asksLast(b)) })
	return out
}

// asksLast is a sort key: 0 for an agent that waits for an answer, otherwise 1.
func asksLast(a client.Agent) int {
	if a.Waiting > 0 {
		return 0
	}
	return 1
}

// selectedIndex returns the index of the selected agent, or 0 if it is no longer listed or none is
// selected.
func (m *Model) selectedIndex() int {
	return max(slices.IndexFunc(m.listed(), func(a client.Agent) bool { return a.ID == m.chosen }), 0)
}

func (m *Model) onList(key string) tea.Cmd {
	switch key {
	case "q":
		return tea.Quit
	case "up", "k":
		m.choose(-1)
	case "down", "j":
		m.choose(1)
	case "pgup":
		m.choose(-m.room())
	case "pgdown", "space":
		m.choose(m.room())
	case "home", "g":
		m.choose(-len(m.agents)) // far enough to reach the top
	case "end", "G":
		m.choose(len(m.agents))
	case "/":
		m.typed = newLine("search", m.search, func(string) tea.Cmd { return m.poll(false) }, nil)
		m.typed.live, m.typed.mayBeEmpty = func(words string) { m.search = words }, true
	case "esc":
		m.search = ""
	case "n":
		m.askRepo()
	case "enter", "right", "l":
		if a := m.current(); a != nil {
			return m.converse(a.ID)
		}
	default:
		return m.onAgent(key)
	}
	return nil
}

// choose moves the selection by the given number of rows.
func (m *Model) choose(by int) {
	if listed := m.listed(); len(listed) > 0 {
		m.chosen = listed[min(max(m.selectedIndex()+by, 0), len(listed)-1)].ID
	}
}

func (m *Model) listLines(high int) []string {
	switch {
	case !m.loaded && m.trouble == nil:
		return []string{"", "  Loading agents…"}
	case !m.loaded:
		return append([]string{""}, m.problemLines(m.trouble)...)
	case len(m.agents) == 0:
		return []string{
			"", "  No agents yet. To start one, press n, or run", "",
			"    " + m.paint.Style(cli.Bold, `aloft run --repo https://git.example.com/team/app "Fix the failing test"`), "",
			"  It then appears here.",
		}
	}
	listed := m.listed()
	if len(listed) == 0 && m.foundFor != m.search {
		return []string{"", "  Searching all agents…"}
	}
	if len(listed) == 0 {
		return []string{"", "  No matching agents. Press Esc to show all."}
	}
	rows := max(high-1, 1)
	at := m.selectedIndex()
	m.top = max(min(m.top, at, len(listed)-rows), at-rows+1, 0)
	rest := m.wide - 2 - 11 - 2 - 2 - 11 // the width minus the mark, the status, the gaps and the age
	name := max(rest*2/5, 8)
	doing := max(rest-name, 0)
	out := []string{m.paint.Style(cli.Dim, "  "+fit("STATUS", 11)+fit("NAME", name)+"  "+fit("DOING", doing)+"  CREATED")}
	for i := m.top; i < min(m.top+rows, len(listed)); i++ {
		a := listed[i]
		word, style := agentStatus(a)
		mark, called := "  ", fit(clean(a.Name), name)
		if i == at {
			mark, called = m.paint.Style(cli.Cyan, "> "), m.paint.Style(cli.Bold, called)
		}
		out = append(out, mark+m.paint.Style(style, fit(word, 11))+called+"  "+m.paint.Style(cli.Dim, fit(clean(m.activity(a)), doing)+"  "+cli.Ago(m.Now().Sub(a.CreatedAt))))
	}
	return out
}

// activity returns the agent's current activity or question.
func (m *Model) activity(a client.Agent) string {
	if q := m.asks(a.ID); q != nil {
		return requestSummary(*q)
	}
	return a.Doing
}

// requestSummary returns a request on one line. If the team hides summaries in lists, it
// returns only the tool's name.
func requestSummary(q client.Approval) string {
	if q.Hidden {
		return q.Tool
	}
	return q.Tool + ": " + q.Subject
}

func (m *Model) listTitle() string {
	if !m.loaded {
		return m.paint.Style(cli.Bold, "Aloft")
	}
	asking, failed := 0, 0
	for _, a := range m.agents {
		switch {
		case a.Waiting > 0:
			asking++
		case justFailed(a, m.Now()):
			failed++
		}
	}
	title := m.paint.Style(cli.Bold, "Aloft") + "  " + counted(len(m.agents), "agent")
	if len(m.agents) >= mostAgents {
		title = m.paint.Style(cli.Bold, "Aloft") + fmt.Sprintf("  the newest %d agents; / searches all", len(m.agents))
	}
	if m.search != "" {
		title += fmt.Sprintf("  %d with “%s”", len(m.listed()), cutTo(clean(m.search), 30))
	}
	if asking > 0 {
		verb := "ask"
		if asking == 1 {
			verb = "asks"
		}
		title += m.paint.Style(cli.Yellow, fmt.Sprintf("  %d %s you", asking, verb))
	}
	if failed > 0 {
		title += m.paint.Style(cli.Red, fmt.Sprintf("  %d failed", failed))
	}
	return title
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
