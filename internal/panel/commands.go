package panel

import (
	"bytes"
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"aloft/internal/cli"
	"aloft/internal/client"
)

const (
	pollEvery  = 2 * time.Second
	pollWithin = 15 * time.Second // timeout of a list request or an action
	pageSize   = 100              // the API's largest page size
	mostAgents = 1000             // maximum number of agents listed without a search
	batchSize  = 500              // maximum number of events drawn at once
)

// Messages from commands to Update.
type (
	polled struct {
		again     bool // schedule another poll
		client    Client
		agents    []client.Agent
		found     []client.Agent // results of the search for foundFor
		foundFor  string
		questions []client.Approval
		err       error
	}
	tick          struct{}
	eventsArrived struct {
		feed   *feed
		events []client.Event
	}
	feedEnded struct {
		feed *feed
		err  error // nil if the agent was deleted
	}
	diffRead struct {
		agentID string
		diff    client.Diff
		err     error
	}
	actionDone struct {
		act act
		err error
	}
)

// act is an action on an agent.
type act struct {
	agentID string
	did     string  // message after success
	ask     string  // confirmation question; "" for none
	sends   bool    // the action sends the agent's draft
	made    *string // id of the created agent, to open it; nil if the action creates none
	do      func(context.Context, Client) error
}

// poll fetches the agents and pending requests. It connects first if there is no
// connection yet, and reconnects after an error, because the server may have changed.
func (m *Model) poll(again bool) tea.Cmd {
	ctx, c, connect, search := m.ctx, m.client, m.Connect, m.search
	anew := c == nil || m.trouble != nil
	return func() tea.Msg {
		p := polled{again: again, client: c}
		if anew {
			if p.client, p.err = connect(); p.err != nil {
				return polled{again: again, err: p.err}
			}
		}
		ctx, cancel := context.WithTimeout(ctx, pollWithin)
		defer cancel()
		if p.agents, p.err = list(ctx, p.client, mostAgents, ""); p.err != nil {
			return p
		}
		// The server searches all agents, including those that are not listed.
		if p.foundFor = search; search != "" {
			if p.found, p.err = list(ctx, p.client, pageSize, search); p.err != nil {
				return p
			}
		}
		p.questions, p.err = p.client.Approvals(ctx)
		return p
	}
}

// list fetches at most limit agents that match words: first those that wait for an
// answer, then the newest.
func list(ctx context.Context, c Client, limit int, words string) ([]client.Agent, error) {
	var all []client.Agent
	seen := map[string]bool{}
	for cursor := ""; len(all) < limit; {
		page, err := c.FindAgents(ctx, pageSize, cursor, client.AgentFilter{Search: words, AsksFirst: true})
		if err != nil {
			return nil, err
		}
		for _, a := range page.Items {
			if !seen[a.ID] { // an agent that was answered between two pages is returned twice
				seen[a.ID] = true
				all = append(all, a)
			}
		}
		if cursor = page.NextCursor; cursor == "" || len(page.Items) == 0 {
			break
		}
	}
	return all, nil
}

// perform runs an action and then polls.
func (m *Model) perform(a act) tea.Cmd {
	ctx, c := m.ctx, m.client
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, pollWithin)
		defer cancel()
		return actionDone{act: a, err: a.do(ctx, c)}
	}
}

// showAction shows the result of an action.
func (m *Model) showAction(msg actionDone) tea.Cmd {
	m.notice, m.bad = msg.act.did, false
	if msg.err != nil {
		p := m.Problem(msg.err)
		m.notice, m.bad = cli.Line(p.Message, 0), true
		if p.Hint != "" {
			m.notice += ": " + cli.Line(p.Hint, 0)
		}
		switch {
		case msg.act.sends && msg.act.agentID == "":
			m.notice += " (your text is kept: press n)"
		case msg.act.sends:
			m.notice += " (your text is kept: press f)"
		}
		return m.poll(false)
	}
	if msg.act.sends {
		delete(m.drafts, msg.act.agentID)
	}
	if msg.act.made != nil && m.open == nil && m.page == nil && m.typed == nil {
		m.search = ""
		return tea.Batch(m.converse(*msg.act.made), m.poll(false))
	}
	return m.poll(false)
}

// feed follows an agent's journal.
type feed struct {
	events chan client.Event
	ctx    context.Context
	cancel context.CancelFunc
}

// newFeed returns a feed and the commands that start reading it.
func (m *Model) newFeed(agentID string) (*feed, tea.Cmd) {
	ctx, cancel := context.WithCancel(m.ctx)
	f := &feed{events: make(chan client.Event, batchSize), ctx: ctx, cancel: cancel}
	c := m.client
	return f, tea.Batch(f.next, func() tea.Msg {
		for e, err := range c.Events(ctx, agentID, 0, true) {
			if err != nil {
				return feedEnded{f, err}
			}
			select {
			case f.events <- e:
			case <-ctx.Done():
				return nil
			}
		}
		return feedEnded{f, nil}
	})
}

// next waits for the next events.
func (f *feed) next() tea.Msg {
	var batch []client.Event
	select {
	case e := <-f.events:
		batch = append(batch, e)
	case <-f.ctx.Done():
		return nil
	}
	for len(batch) < batchSize {
		select {
		case e := <-f.events:
			batch = append(batch, e)
		default:
			return eventsArrived{f, batch}
		}
	}
	return eventsArrived{f, batch}
}

func (m *Model) readDiff(agentID string) tea.Cmd {
	ctx, c := m.ctx, m.client
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, pollWithin)
		defer cancel()
		d, err := c.Diff(ctx, agentID)
		return diffRead{agentID: agentID, diff: d, err: err}
	}
}

// attach suspends the panel and runs a shell in the agent's machine.
func (m *Model) attach(agentID string) tea.Cmd {
	var said bytes.Buffer
	cmd := m.Attach(agentID)
	cmd.Stderr = &said
	return tea.ExecProcess(cmd, func(err error) tea.Msg {
		if words := strings.TrimSpace(said.String()); err != nil && words != "" {
			err = &cli.Problem{Message: strings.TrimPrefix(cli.Line(words, 0), "error: "), Err: err}
		}
		return actionDone{act: act{agentID: agentID, did: "Detached; the terminal keeps running."}, err: err}
	})
}
