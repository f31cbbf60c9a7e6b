package machines

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
	"aloft/internal/terminal"
)

// Machines connects to the machines of agents. The API authorizes the caller
// first. Its methods are safe for concurrent use.
type Machines interface {
	// Open opens the named stream of the agent's machine, and wakes the machine
	// if it sleeps. The connection's RemoteAddr names the machine and its
	// current boot.
	Open(ctx context.Context, agentID, stream string) (net.Conn, error)
	// PTY connects to the terminals of the agent's machine. The connection
	// speaks the protocol of docs/reference/pty.md. The caller closes it.
	PTY(ctx context.Context, agentID string) (PTY, error)
	// Terminals lists the terminals that the agent and people share.
	Terminals(ctx context.Context, agentID string) ([]terminal.Terminal, error)
	// Ports lists the TCP ports of the machine's loopback on which programs listen, in
	// ascending order.
	Ports(ctx context.Context, agentID string) ([]Port, error)
	// CreateTerminal creates a terminal, or returns the existing one with the
	// same name.
	CreateTerminal(ctx context.Context, agentID string, n terminal.New) (made terminal.Terminal, created bool, err error)
	// Files opens the files of the agent's machine. The caller closes the
	// result.
	Files(ctx context.Context, agentID string) (Files, error)
}

// Port is a port on which a program listens.
type Port struct {
	Port    uint16
	Program string // name of the process; "" if unknown
}

// PTY is a connection whose messages the API relays unchanged.
type PTY interface {
	messages
	Close() error
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

// noMachines returns the error of a server that cannot reach machines.
func noMachines() error {
	return fault.NotImplemented("access to machines is not enabled on this server").Named(rest.CodeOff)
}

func (s *API) listTerminals(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
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
	return rest.WriteJSON(w, http.StatusOK, reply)
}

func (s *API) createTerminal(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	var in createTerminalRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	if s.Machines == nil {
		return noMachines()
	}
	made, created, err := s.Machines.CreateTerminal(r.Context(), a.ID, terminal.New{
		Name: in.Name, Command: in.Command, Dir: in.WorkingDirectory, Columns: in.Columns, Rows: in.Rows,
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return rest.WriteJSON(w, status, viewTerminal(made))
}

func viewTerminal(t terminal.Terminal) terminalJSON {
	out := terminalJSON{
		Name: t.Name, CreatedAt: t.Created.UTC().Format(time.RFC3339), Attached: t.Attached, Columns: t.Columns, Rows: t.Rows,
		Command: t.Command, WorkingDirectory: t.Dir,
	}
	if t.Dead {
		out.ExitCode = t.ExitCode
	}
	return out
}

// maxPTYMessage is the largest message that a client may send, in bytes.
const maxPTYMessage = 256 << 10

// ptyProtocol is the WebSocket subprotocol for terminals; clients may omit it.
const ptyProtocol = "aloft.pty"

func (s *API) openPTY(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
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
	return Join(w, r, pty)
}

// Join relays between a client's WebSocket and a machine's, and closes both.
func Join(w http.ResponseWriter, r *http.Request, pty PTY) error {
	defer func() { _ = pty.Close() }() // ignore the error: nobody could act on it
	// Accept rejects pages of another origin.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled, Subprotocols: []string{ptyProtocol}})
	if err != nil {
		return nil // Accept has replied
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(maxPTYMessage)
	ctx, cancel := context.WithCancel(r.Context())
	var both sync.WaitGroup
	both.Go(func() {
		defer cancel()
		_ = relay(ctx, pty, ws) // ends when the client leaves
	})
	end := relay(ctx, ws, pty)
	if e, ok := errors.AsType[websocket.CloseError](end); ok {
		_ = ws.Close(e.Code, e.Reason) // close before cancel, which would cut the connection
	} else if ctx.Err() == nil {
		_ = ws.Close(websocket.StatusGoingAway, "the machine is gone")
	}
	cancel()
	both.Wait()
	return nil
}

// relay passes messages on until either connection closes or fails, and returns
// the reason. It holds no whole message: a machine's may have a MiB.
func relay(ctx context.Context, to, from messages) error {
	for {
		kind, message, err := from.Reader(ctx)
		if err != nil {
			return err
		}
		if err := pass(ctx, to, kind, message); err != nil {
			return err
		}
	}
}

// messages are the messages of a WebSocket.
type messages interface {
	Reader(ctx context.Context) (websocket.MessageType, io.Reader, error)
	Writer(ctx context.Context, kind websocket.MessageType) (io.WriteCloser, error)
}

// pass writes one message.
func pass(ctx context.Context, to messages, kind websocket.MessageType, message io.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, rest.WriteWithin)
	defer cancel()
	w, err := to.Writer(ctx, kind)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, message); err != nil {
		return err
	}
	return w.Close()
}
