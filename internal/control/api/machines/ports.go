package machines

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
	"aloft/internal/wire/tunnel"

	"github.com/coder/websocket"
)

type listeningPortJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Port    int      `json:"port" minimum:"1" maximum:"65535"`
	Program string   `json:"program,omitempty" doc:"name of the process that listens"`
}

type listPortsResponseJSON struct {
	_     struct{}            `json:"-" additionalProperties:"true"`
	Items []listeningPortJSON `json:"items" nullable:"false"`
}

// listPorts lists the ports of the agent's machine. A sleeping machine is woken.
func (s *API) listPorts(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	if s.Machines == nil {
		return noMachines()
	}
	ports, err := s.Machines.Ports(r.Context(), a.ID)
	if err != nil {
		return err
	}
	out := listPortsResponseJSON{Items: []listeningPortJSON{}}
	for _, p := range ports {
		out.Items = append(out.Items, listeningPortJSON{Port: int(p.Port), Program: p.Program})
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

// portWithin is the timeout for connecting to a port.
const portWithin = 15 * time.Second

// forwardPort joins a WebSocket to a TCP port in the agent's machine. Errors
// before the upgrade are ordinary HTTP replies.
func (s *API) forwardPort(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(r.PathValue("port"), 10, 16)
	if err != nil || port == 0 {
		return fault.Invalid("must be a number from 1 to 65535").At("port")
	}
	if r.Method != http.MethodGet || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return fault.Invalid("this endpoint requires a WebSocket").Hint("use aloft agent forward")
	}
	within, cancel := context.WithTimeout(r.Context(), portWithin)
	conn, err := s.Work.DialPort(within, a.ID, uint16(port))
	cancel()
	if err != nil {
		return fmt.Errorf("port %d of %s: %w", port, a.ID, err)
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		_ = conn.Close()
		s.Logger.Debug("no websocket", "error", err)
		return nil // Accept has replied
	}
	tunnel.Join(r.Context(), ws, conn)
	return nil
}
