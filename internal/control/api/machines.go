package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"aloft/internal/account"
	"aloft/internal/fault"
)

// Machines reaches into the machines of agents. Who may is judged here, before
// any of it is called. Its methods are safe for concurrent use.
type Machines interface {
	// Open opens a stream of that name to the agent's machine, and wakes the
	// machine where need be. The stream's RemoteAddr names the machine and its
	// present life.
	Open(ctx context.Context, agentID, stream string) (net.Conn, error)
	// PTY connects to the PTYs of the agent's machine, which speaks the protocol
	// of docs/reference/pty.md. The end of the connection is the caller's duty.
	PTY(ctx context.Context, agentID string) (PTY, error)
	// Terminals lists the terminals that the agent and people share.
	Terminals(ctx context.Context, agentID string) ([]Terminal, error)
	// CreateTerminal makes one, or returns the one that has the name.
	CreateTerminal(ctx context.Context, agentID string, n NewTerminal) (made Terminal, created bool, err error)
	// Files goes to the files of the agent's machine. Their Close is the caller's duty.
	Files(ctx context.Context, agentID string) (Files, error)
}

// PTY is a connection whose messages are passed on as they are.
type PTY interface {
	Read(ctx context.Context) (websocket.MessageType, []byte, error)
	Write(ctx context.Context, kind websocket.MessageType, message []byte) error
	Close() error
}

// Terminal is a terminal as the machine tells it: text that nobody vouches for.
type Terminal struct {
	Name             string
	Created          time.Time
	Attached         int
	Columns, Rows    int
	Command          string
	WorkingDirectory string
	ExitCode         *int // nil while the command runs
}

// NewTerminal says what to make. Every field may be left out.
type NewTerminal struct {
	Name, Command, WorkingDirectory string
	Columns, Rows                   int
}

type terminalJSON struct {
	_                struct{} `json:"-" additionalProperties:"true"`
	Name             string   `json:"name"`
	CreatedAt        string   `json:"createdAt" format:"date-time"`
	Attached         int      `json:"attached" doc:"number of attached clients"`
	Columns          int      `json:"columns"`
	Rows             int      `json:"rows"`
	Command          string   `json:"command" doc:"foreground command"`
	WorkingDirectory string   `json:"workingDirectory"`
	ExitCode         *int     `json:"exitCode,omitempty" doc:"exit code of a command that has exited"`
}

type listTerminalsResponseJSON struct {
	_     struct{}       `json:"-" additionalProperties:"true"`
	Items []terminalJSON `json:"items" nullable:"false"`
}

type createTerminalRequestJSON struct {
	_                struct{} `json:"-" additionalProperties:"true"`
	Name             string   `json:"name,omitempty" doc:"letters, digits, _ and -; default generated"`
	Command          string   `json:"command,omitempty" doc:"command for the user's shell; default a login shell"`
	WorkingDirectory string   `json:"workingDirectory,omitempty"`
	Columns          int      `json:"columns,omitempty"`
	Rows             int      `json:"rows,omitempty"`
}

// noMachines is what a server answers that cannot reach into machines.
func noMachines() error {
	return fault.NotImplemented("access to machines is not enabled on this server").Named(codeOff)
}

func (s *server) listTerminals(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	if s.Machines == nil {
		return noMachines()
	}
	list, err := s.Machines.Terminals(r.Context(), a.ID)
	if err != nil {
		return err
	}
	reply := listTerminalsResponseJSON{Items: []terminalJSON{}}
	for _, t := range list {
		reply.Items = append(reply.Items, viewTerminal(t))
	}
	return writeJSON(w, http.StatusOK, reply)
}

func (s *server) createTerminal(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	var in createTerminalRequestJSON
	if err := readBody(w, r, &in); err != nil {
		return err
	}
	if s.Machines == nil {
		return noMachines()
	}
	made, created, err := s.Machines.CreateTerminal(r.Context(), a.ID, NewTerminal{
		Name: in.Name, Command: in.Command, WorkingDirectory: in.WorkingDirectory, Columns: in.Columns, Rows: in.Rows,
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return writeJSON(w, status, viewTerminal(made))
}

func viewTerminal(t Terminal) terminalJSON {
	return terminalJSON{
		Name: t.Name, CreatedAt: t.Created.UTC().Format(time.RFC3339), Attached: t.Attached, Columns: t.Columns, Rows: t.Rows,
		Command: t.Command, WorkingDirectory: t.WorkingDirectory, ExitCode: t.ExitCode,
	}
}

// maxPTYMessage bounds a message from a client, in bytes.
const maxPTYMessage = 256 << 10

// ptyProtocol is the subprotocol of PTYs, for those who ask for one.
const ptyProtocol = "aloft.pty"

func (s *server) openPTY(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	if s.Machines == nil {
		return noMachines()
	}
	pty, err := s.Machines.PTY(r.Context(), a.ID)
	if err != nil {
		return err
	}
	return join(w, r, pty)
}

// join joins a client's WebSocket to a machine's, which it closes.
func join(w http.ResponseWriter, r *http.Request, pty PTY) error {
	defer func() { _ = pty.Close() }() // what it says has nobody to hear it
	// A browser's page of another origin is refused.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled, Subprotocols: []string{ptyProtocol}})
	if err != nil {
		return nil // it has answered
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(maxPTYMessage)
	ctx, cancel := context.WithCancel(r.Context())
	var both sync.WaitGroup
	both.Go(func() {
		defer cancel()
		_ = relay(ctx, pty.Write, ws.Read) // whoever leaves, leaves
	})
	end := relay(ctx, ws.Write, pty.Read)
	if e, ok := errors.AsType[websocket.CloseError](end); ok {
		_ = ws.Close(e.Code, e.Reason) // before cancel, which would cut it off
	} else if ctx.Err() == nil {
		_ = ws.Close(websocket.StatusGoingAway, "the machine is gone")
	}
	cancel()
	both.Wait()
	return nil
}

// relay passes messages on until either end has had enough, and returns why.
func relay(ctx context.Context, write func(context.Context, websocket.MessageType, []byte) error,
	read func(context.Context) (websocket.MessageType, []byte, error)) error {
	for {
		kind, message, err := read(ctx)
		if err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, writeWithin)
		err = write(within, kind, message)
		cancel()
		if err != nil {
			return err
		}
	}
}
