// Package panel is the full-screen control panel: the list of agents, live
// conversations, and keys to control agents. It is a Bubble Tea program: [Model.Update]
// handles messages without side effects, [Model.View] draws the model, and the commands
// in commands.go make the requests to the server.
//
// The package has its own line editor, because the text input of package bubbles turns
// pasted line breaks into spaces, and its text area needs several rows of the screen.
//
// Text from a server, a model or a machine is cleaned when it is received: see package
// cli.
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

// Reader makes the panel's read requests.
type Reader interface {
	FindAgents(ctx context.Context, limit int, cursor string, f client.AgentFilter) (client.AgentPage, error)
	Approvals(ctx context.Context) ([]client.Approval, error)
	Approval(ctx context.Context, agentID, id string) (client.Approval, error)
	Events(ctx context.Context, agentID string, after int64, follow bool) iter.Seq2[client.Event, error]
	Diff(ctx context.Context, agentID string) (client.Diff, error)
}

// Steerer makes the panel's requests that control agents.
type Steerer interface {
	CreateRun(ctx context.Context, agentID string, p client.Prompt, key string) (client.Run, error)
	AnswerApproval(ctx context.Context, agentID, id string, in client.Answer) error
	Cancel(ctx context.Context, agentID, runID string) error
	Pause(ctx context.Context, agentID string) error
	Resume(ctx context.Context, agentID string) error
}

// Maker makes the panel's requests that create agents, queue work for them, and archive
// them.
type Maker interface {
	CreateAgent(ctx context.Context, in client.NewAgent, key string) (client.Agent, client.Run, error)
	QueuePrompt(ctx context.Context, agentID string, p client.Prompt, key string) (client.Queued, error)
	Archive(ctx context.Context, agentID string) error
}

// Client is a connection to a server. *client.Client implements it.
type Client interface {
	Reader
	Steerer
	Maker
}

// Options configure the panel.
type Options struct {
	Connect func() (Client, error)         // called again until it succeeds
	Attach  func(agentID string) *exec.Cmd // command that opens a terminal in an agent's machine
	Problem func(error) *cli.Problem       // converts an error for display
	Color   bool                           // use colors
	Now     func() time.Time               // current time; nil is time.Now
}

// Run shows the panel on a terminal until the user quits or ctx is done.
func Run(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // stops pending requests
	_, err := tea.NewProgram(New(ctx, o), tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithInput(in), tea.WithOutput(out)).Run()
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, tea.ErrProgramKilled) {
		return cause
	}
	return err
}

// Model is the state of the panel. It must be used by one goroutine.
type Model struct {
	Options
	ctx   context.Context // context of commands
	paint *cli.Output     // for styles only
	wide  int
	high  int

	client    Client
	agents    []client.Agent // agents waiting for an answer first, then the newest
	found     []client.Agent // the server's results for foundFor, in the same order
	foundFor  string
	questions []client.Approval
	loaded    bool         // the list has been loaded at least once
	trouble   *cli.Problem // why the last poll failed

	search string // search text
	chosen string // id of the selected agent; "" for the first
	top    int    // first agent on the screen
	open   *conversation
	page   *page            // open page, over the list or the conversation
	typed  *line            // active text input
	sure   *act             // action waiting for confirmation
	drafts map[string]draft // drafts by agent id; "" for a new agent
	asked  draft            // draft for the last new agent, with its repository

	notice string // result of the last action
	bad    bool   // the last action failed
}

// New returns a panel that has not loaded anything yet. Its commands stop when ctx is
// done.
func New(ctx context.Context, o Options) *Model {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Model{Options: o, ctx: ctx, paint: cli.OnScreen(io.Discard, 1, o.Color), wide: 80, high: 24, drafts: map[string]draft{}}
}

// Init starts polling the server.
func (m *Model) Init() tea.Cmd { return m.poll(true) }

// Update handles a message.
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
	case eventsArrived:
		if m.open != nil && m.open.feed == msg.feed {
			return m, m.showEvents(msg.events)
		}
	case feedEnded:
		if m.open != nil && m.open.feed == msg.feed {
			m.open.feedProblem = m.Problem(msg.err)
		}
	case diffRead:
		if m.page != nil && m.page.kind == diffPage && m.page.agentID == msg.agentID {
			m.showDiff(msg)
		}
	case questionRead:
		m.questionRead(msg)
	case actionDone:
		return m, m.showAction(msg)
	}
	return m, nil
}

// pressed handles a key.
func (m *Model) pressed(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	switch name {
	case "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	}
	m.notice, m.bad = "", false
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

// polled handles the result of a poll.
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
		m.notice = "This request has been answered, or its run has ended."
	}
	return again
}

// question returns the pending request with the given id, or nil.
func (m *Model) question(id string) *client.Approval {
	for i := range m.questions {
		if m.questions[i].ID == id {
			return &m.questions[i]
		}
	}
	return nil
}

// asks returns an agent's oldest pending request, or nil.
func (m *Model) asks(agentID string) *client.Approval {
	for i := range m.questions {
		if m.questions[i].AgentID == agentID {
			return &m.questions[i]
		}
	}
	return nil
}

// current returns the agent on which keys act, or nil.
func (m *Model) current() *client.Agent {
	if m.open == nil {
		listed := m.listed()
		if len(listed) == 0 {
			return nil
		}
		return &listed[m.selectedIndex()]
	}
	for i := range m.agents {
		if m.agents[i].ID == m.open.agentID {
			return &m.agents[i]
		}
	}
	return nil
}
