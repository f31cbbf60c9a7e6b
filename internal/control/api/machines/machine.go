package machines

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"

	"github.com/coder/websocket"
)

const (
	// openWithin is the timeout for opening a stream; the machine may have to
	// start first.
	openWithin = 3 * time.Minute
	// pingEvery is the interval of pings, which keep proxies from closing an
	// idle connection and detect clients that have vanished.
	pingEvery  = 30 * time.Second
	pingWithin = 20 * time.Second
)

// sshStream is the name of a machine's ssh server.
const sshStream = "ssh"

// machineHeader names the machine to which a WebSocket is connected, and the
// machine's current boot.
const machineHeader = "Aloft-Machine"

// openSSH joins a WebSocket to the machine's ssh server.
func (s *API) openSSH(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	return s.openStream(w, r, who, sshStream)
}

// openStream joins a WebSocket to a stream of the agent's machine. Messages are
// bytes of the stream.
func (s *API) openStream(w http.ResponseWriter, r *http.Request, who account.APIKey, name string) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := wantsSocket(w, r, "`aloft agent ssh`"); err != nil {
		return err
	}
	switch {
	case a.Archived:
		return fault.Conflict("the agent is archived").Named("agent_archived").Hint("unarchive it first")
	case s.Machines == nil:
		return fault.NotImplemented("access to machines is not enabled on this server").Named(rest.CodeOff)
	}
	ctx, cancel := context.WithTimeout(r.Context(), openWithin)
	conn, err := s.Machines.Open(ctx, a.ID, name)
	cancel()
	if err != nil {
		return err
	}
	w.Header().Set(machineHeader, conn.RemoteAddr().String())
	return joinStream(w, r, conn)
}

// wantsSocket returns a fault unless the request asks for a WebSocket. command
// is the CLI command that its hint recommends.
func wantsSocket(w http.ResponseWriter, r *http.Request, command string) error {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return nil
	}
	w.Header().Set("Upgrade", "websocket")
	return fault.Invalid("this endpoint requires a WebSocket").Named("upgrade_required").Hint("connect with %s or another WebSocket client", command)
}

// joinStream accepts the request as a WebSocket, copies between it and conn
// until either ends, and closes both.
func joinStream(w http.ResponseWriter, r *http.Request, conn net.Conn, protocols ...string) error {
	defer conn.Close()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled, Subprotocols: protocols})
	if err != nil {
		return nil // Accept has replied
	}
	ws.SetReadLimit(-1) // no limit, because messages are not buffered
	pipe(r.Context(), ws, conn)
	return nil
}

// pipe copies in both directions until either side ends, then closes the other.
func pipe(ctx context.Context, ws *websocket.Conn, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := websocket.NetConn(ctx, ws, websocket.MessageBinary)
	defer client.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go keepAlive(ctx, cancel, ws)
	in := make(chan struct{})
	go func() {
		defer close(in)
		_, _ = io.Copy(conn, client)
		cancel()
	}()
	_, err := io.Copy(client, conn)
	if err == nil && ctx.Err() == nil {
		_ = ws.Close(websocket.StatusNormalClosure, "")
	}
	cancel()
	<-in
}

// keepAlive pings the client until ctx ends. If a ping is not answered, it
// cancels ctx.
func keepAlive(ctx context.Context, cancel context.CancelFunc, ws *websocket.Conn) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ping, done := context.WithTimeout(ctx, pingWithin)
		err := ws.Ping(ping)
		done()
		if err != nil && !errors.Is(err, context.Canceled) {
			cancel()
		}
	}
}
