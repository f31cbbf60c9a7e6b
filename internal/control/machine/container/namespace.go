package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"

	"aloft/internal/control/machine/container/link"
	"aloft/internal/policy"
)

// A Namespace is a network namespace like a machine's, for a process that runs
// on this host: its only way out is an egress process, which enforces a policy.
// Its methods are not safe for concurrent use, except DialGateway.
type Namespace struct {
	dir     string
	link    link.Link
	gateway *exec.Cmd
}

// Nameserver is the address that answers name lookups in a [Namespace].
const Nameserver = link.GatewayV4

// OpenNamespace creates a namespace and starts its egress process with the
// given command. Its files are kept in dir, which must exist; removing dir ends
// the process.
func OpenNamespace(ctx context.Context, gateway []string, dir string, n policy.Network) (*Namespace, error) {
	l, err := link.Make(nil)
	if err != nil {
		return nil, err
	}
	cmd, wait, err := gatewayCommand(gateway, dir, n, l.Device)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("network: %w", err), l.Close())
	}
	ns := &Namespace{dir: dir, link: l, gateway: cmd}
	if err := wait(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("network: %w", err), ns.Close())
	}
	return ns, nil
}

// Path returns the path of the namespace, for setns. It is valid until Close.
func (n *Namespace) Path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.link.Namespace.Fd())
}

// DialGateway connects to the control socket of the egress process.
func (n *Namespace) DialGateway(ctx context.Context) (net.Conn, error) {
	return dialIn(ctx, n.dir, gatewaySocket)
}

// Close ends the egress process and with it all network access.
func (n *Namespace) Close() error {
	err := n.gateway.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_ = n.gateway.Wait() // killed, so the error is expected
	return errors.Join(err, n.link.Close())
}
