// Package panel is the full-screen control panel: the list of agents, a
// conversation as it goes on, and the keys to steer it. What happens is a
// message, [Model.Update] says what follows from one and does nothing outside,
// and [Model.View] draws it; whatever speaks to a server is a command in
// commands.go.
//
// What comes from a server, a model or a machine is cleaned as it is taken in:
// see package cli.
package panel

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"os/exec"
	"time"

	tea "charm.land/bubbletea/v2"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// Reader is what the panel reads of a server.
type Reader interface {
	FindAgents(ctx context.Context, limit int, cursor string, f client.AgentFilter) (client.AgentPage, error)
	Approvals(ctx context.Context) ([]client.Approval, error)
	Approval(ctx context.Context, agentID, id string) (client.Approval, error)
	Events(ctx context.Context, agentID string, after int64, follow bool) iter.Seq2[client.Event, error]
	Diff(ctx context.Context, agentID string) (client.Diff, error)
}

// Steerer is what the panel asks of a server.
type Steerer interface {
	CreateRun(ctx context.Context, agentID string, p client.Prompt, key string) (client.Run, error)
	AnswerApproval(ctx context.Context, agentID, id string, in client.Answer) error
	Cancel(ctx context.Context, agentID, runID string) error
	Pause(ctx context.Context, agentID string) error
	Resume(ctx context.Context, agentID string) error
}

// Maker is what makes agents, gives them work for later and files them away.
type Maker interface {
	CreateAgent(ctx context.Context, in client.NewAgent, key string) (client.Agent, client.Run, error)
	QueuePrompt(ctx context.Context, agentID string, p client.Prompt, key string) (client.Queued, error)
	Archive(ctx context.Context, agentID string) error
}

// Client is a server. A *client.Client is one.
type Client interface {
	Reader
	Steerer
	Maker
}

// Options are what the panel is made of.
type Options struct {
	Connect func() (Client, error)         // asked again until it succeeds
	Attach  func(agentID string) *exec.Cmd // what opens a terminal in an agent's machine
	Problem func(error) *cli.Problem       // what an error is to a person
	Color   bool                           // whether colours are used
	Now     func() time.Time               // the time; nil is the clock's
}

// Run shows the panel on a terminal until the person leaves or ctx ends.
func Run(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends what still reads
	_, err := tea.NewProgram(New(ctx, o), tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithInput(in), tea.WithOutput(out)).Run()
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, tea.ErrProgramKilled) {
		return cause
	}
	return err
}

// Model is all that the panel knows. It is used by one goroutine.
type Model struct {
	Options
	ctx   context.Context // of the commands
	paint *cli.Output     // for its colours
	wide  int
	high  int

	client    Client
	agents    []client.Agent // those that ask first, then the newest
	found     []client.Agent // what the server has found for foundFor, in the same order
	foundFor  string
	questions []client.Approval
	loaded    bool         // the list was read once
	trouble   *cli.Problem // why the list could not be read again

	search string // words that what is listed has
	chosen string // id of the agent that the list stands on; "" for the first, whichever that is
	top    int    // first agent on the screen
	open   *conversation
	page   *page            // over the list or the conversation
	typed  *line            // what is being written
	sure   *act             // what waits for a yes
	drafts map[string]draft // by agent; "" is a new one's
	asked  draft            // of the new agent that was asked for last, with its repository

	said string // how the last action went
	bad  bool   // it went wrong
}

// New returns a panel that has read nothing yet. ctx ends what its commands do.
func New(ctx context.Context, o Options) *Model {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Model{Options: o, ctx: ctx, paint: cli.OnScreen(io.Discard, 1, o.Color), wide: 80, high: 24, drafts: map[string]draft{}}
}

// Init begins to read.
func (m *Model) Init() tea.Cmd { return m.poll(true) }

// Update says what follows from a message.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.wide, m.high = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.pressed(msg)
	case tea.PasteMsg:
		if m.typed != nil {
			m.typed.insert(cli.Clean(msg.Content))
			m.typed.changed()
		}
	case polled:
		return m, m.polled(msg)
	case tick:
		return m, m.poll(true)
	case happened:
		if m.open != nil && m.open.feed == msg.feed {
			return m, m.happened(msg.events)
		}
	case feedEnded:
		if m.open != nil && m.open.feed == msg.feed {
			m.open.ended = m.Problem(msg.err)
		}
	case diffRead:
		if m.page != nil && m.page.kind == diffPage && m.page.agentID == msg.agentID {
			m.showDiff(msg)
		}
	case questionRead:
		m.questionRead(msg)
	case acted:
		return m, m.acted(msg)
	}
	return m, nil
}

// pressed says what follows from a key.
func (m *Model) pressed(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	switch name {
	case "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	}
	m.said, m.bad = "", false
	switch {
	case m.sure != nil:
		return m.answeredSure(name)
	case m.typed != nil:
		return m.write(key)
	case m.page != nil:
		return m.onPage(name)
	case name == "?":
		m.page = m.help()
		return nil
	case m.open != nil:
		return m.onConversation(name)
	}
	return m.onList(name)
}

// polled takes in what the server said of its agents.
func (m *Model) polled(p polled) tea.Cmd {
	var again tea.Cmd
	if p.again {
		again = tea.Tick(pollEvery, func(time.Time) tea.Msg { return tick{} })
	}
	m.client = cmp.Or(p.client, m.client)
	if p.err != nil {
		m.trouble = m.Problem(p.err)
		return again
	}
	m.trouble, m.loaded = nil, true
	m.agents, m.questions = p.agents, p.questions
	m.found, m.foundFor = p.found, p.foundFor
	if m.page != nil && m.page.kind == questionPage && m.question(m.page.question.ID) == nil {
		m.page = nil
		m.said = "That question was answered, or its run has ended."
	}
	return again
}

// question returns the question of an id that still waits; nil if none does.
func (m *Model) question(id string) *client.Approval {
	for i := range m.questions {
		if m.questions[i].ID == id {
			return &m.questions[i]
		}
	}
	return nil
}

// asks returns the oldest question of an agent; nil if it asks nothing.
func (m *Model) asks(agentID string) *client.Approval {
	for i := range m.questions {
		if m.questions[i].AgentID == agentID {
			return &m.questions[i]
		}
	}
	return nil
}

// current returns the agent that keys are for; nil if there is none.
func (m *Model) current() *client.Agent {
	if m.open == nil {
		listed := m.listed()
		if len(listed) == 0 {
			return nil
		}
		return &listed[m.at()]
	}
	for i := range m.agents {
		if m.agents[i].ID == m.open.agentID {
			return &m.agents[i]
		}
	}
	return nil
}
