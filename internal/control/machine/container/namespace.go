package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"

	"aloft/internal/policy"
)

// A Namespace is a network as a machine has one, for what runs on this host and
// is no machine: its only way out is a gateway, which judges. Its methods are for
// one goroutine, but for DialGateway.
type Namespace struct {
	dir     string
	link    link
	gateway *exec.Cmd
}

// Nameserver is the address that answers name lookups in a [Namespace].
const Nameserver = gatewayV4

// OpenNamespace makes one, with the gateway that the command starts. It keeps
// what it needs in the folder dir, which is there, and with which it ends.
func OpenNamespace(ctx context.Context, gateway []string, dir string, n policy.Network) (*Namespace, error) {
	l, err := makeLink()
	if err != nil {
		return nil, err
	}
	cmd, wait, err := gatewayCommand(gateway, dir, n, l.device)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("network: %w", err), l.Close())
	}
	ns := &Namespace{dir: dir, link: l, gateway: cmd}
	if err := wait(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("network: %w", err), ns.Close())
	}
	return ns, nil
}

// Path is where the namespace can be entered, for as long as it is open.
func (n *Namespace) Path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.link.namespace.Fd())
}

// DialGateway connects to the control socket of the gateway.
func (n *Namespace) DialGateway(ctx context.Context) (net.Conn, error) {
	return dialIn(ctx, n.dir, gatewaySocket)
}

// Close ends the gateway, and with it every way out.
func (n *Namespace) Close() error {
	err := n.gateway.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_ = n.gateway.Wait() // it was killed
	return errors.Join(err, n.link.Close())
}
