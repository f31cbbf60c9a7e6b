package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
)

// desktopPort is where a machine's VNC server listens
// (docs/reference/machine.md). If the image has a VNC server, the machine
// starts it when this port is dialed.
const desktopPort = 5901

// desktopProtocol is the WebSocket subprotocol that VNC clients request.
const desktopProtocol = "binary"

// startDesktop tells the user how to add a desktop to a machine without one.
const startDesktop = "install a VNC server in its image, and the machine starts it: tigervnc-standalone-server on Debian and Ubuntu, or `aloft image build --desktop`"

// codeNoDesktop is the error code for a machine without a desktop.
const codeNoDesktop = "desktop_missing"

type desktopJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	Running  bool     `json:"running" doc:"whether a VNC server is running in the machine"`
	Protocol string   `json:"protocol,omitempty" doc:"its RFB version, such as 3.8"`
	Reason   string   `json:"reason,omitempty" doc:"why it is not running"`
	Hint     string   `json:"hint,omitempty" doc:"how to fix it"`
}

// rfbHello matches the protocol version with which a VNC server opens the
// connection: RFC 6143, 7.1.1.
var rfbHello = regexp.MustCompile(`^RFB 0{0,2}([0-9]{1,3})\.0{0,2}([0-9]{1,3})\n$`)

// helloSize is the length of that version message, in bytes.
const helloSize = len("RFB 003.008\n")

// protocolOf returns the protocol version from a VNC server's first message.
func protocolOf(hello []byte) (string, bool) {
	m := rfbHello.FindSubmatch(hello)
	if len(hello) != helloSize || m == nil {
		return "", false
	}
	return fmt.Sprintf("%s.%s", m[1], m[2]), true
}

// A desktop is a connection to a VNC server whose version message has been
// read.
type desktop struct {
	net.Conn
	protocol string
	hello    []byte // the part of the version message that Read has not returned yet
}

// Read returns the version message first, then the rest of the connection.
func (d *desktop) Read(b []byte) (int, error) {
	if len(d.hello) > 0 {
		n := copy(b, d.hello)
		d.hello = d.hello[n:]
		return n, nil
	}
	return d.Conn.Read(b)
}

// dialDesktop connects to the desktop of the agent's machine. It wakes a
// sleeping machine, and starts the machine's VNC server. If the machine has no
// desktop, it returns a fault with the code codeNoDesktop.
func (s *API) dialDesktop(ctx context.Context, agentID string) (*desktop, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	conn, err := s.Work.DialPort(ctx, agentID, desktopPort)
	if fault.Is(err, fault.KindNotFound) {
		return nil, noDesktop("nothing is listening on port %d of the machine")
	}
	if err != nil {
		return nil, fmt.Errorf("desktop of %s: %w", agentID, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	hello := make([]byte, helloSize)
	_ = conn.SetReadDeadline(time.Now().Add(portWithin)) // fails only for connections without deadlines, in tests
	_, err = io.ReadFull(conn, hello)
	_ = conn.SetReadDeadline(time.Time{})
	protocol, ok := protocolOf(hello)
	if err != nil || !ok {
		return nil, errors.Join(noDesktop("the program listening on port %d of the machine is not a VNC server"), conn.Close())
	}
	return &desktop{conn, protocol, hello}, nil
}

func noDesktop(why string) error {
	return fault.NotFound(why, desktopPort).Named(codeNoDesktop).Hint(startDesktop)
}

// getDesktop dials the machine on every request; the result is not cached.
func (s *API) getDesktop(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	d, err := s.dialDesktop(r.Context(), a.ID)
	if f := fault.Of(err); err != nil && f.Code == codeNoDesktop {
		return rest.WriteJSON(w, http.StatusOK, desktopJSON{Reason: f.Message, Hint: f.Advice})
	}
	if err != nil {
		return err
	}
	_ = d.Close() // dialed only to test it
	return rest.WriteJSON(w, http.StatusOK, desktopJSON{Running: true, Protocol: d.protocol})
}

// openDesktop joins a WebSocket to the machine's VNC server. It relays the
// messages, which are RFB bytes, without parsing them.
func (s *API) openDesktop(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := wantsSocket(w, r, "`aloft agent desktop`"); err != nil {
		return err
	}
	d, err := s.dialDesktop(r.Context(), a.ID)
	if err != nil {
		return err
	}
	return joinStream(w, r, d, desktopProtocol)
}
