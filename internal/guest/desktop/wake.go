package desktop

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"aloft/internal/fault"
)

// CodeMissing is the error code for a machine without a desktop.
const CodeMissing = "desktop_missing"

// Missing returns the error for a machine without a VNC server.
func Missing() error {
	return fault.NotFound("the machine has no desktop: its image has no VNC server").Named(CodeMissing).
		Hint("install one in the image: tigervnc-standalone-server in Debian and Ubuntu, or `aloft image build --desktop`")
}

// Wake waits until the X server of a display answers. Connecting to the machine's own
// display starts that server and the whole desktop. display has the format of DISPLAY
// and must be in this machine (":1", ":1.0"). If the machine has no desktop, the error
// is a fault ([fault.KindNotFound] with [CodeMissing]) that says what is missing. ctx
// limits the wait. Wake is safe for concurrent use. If the server is running, Wake costs
// one connection, about 0.1 ms.
func Wake(ctx context.Context, display string) error {
	if display == "" {
		return Missing()
	}
	n, err := number(display)
	if err != nil {
		return err
	}
	conn, err := dial(ctx, n)
	if err != nil {
		return fault.NotFound("no X server listens on display %.40q", display).Named(CodeMissing).Because(err).
			Hint("start one there, or unset DISPLAY in the agent's environment variables to use the machine's own")
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// An X11 connection setup without credentials, in little-endian order. Any
	// answer shows that a server is running.
	if _, err = conn.Write([]byte{'l', 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0}); err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("display %s does not answer: %w", display, context.Cause(ctx))
	}
	return fault.Unavailable("the X server of display %.40q exited", display).Because(err).Hint("try again: it restarts automatically")
}

// number returns the number of a display of this machine.
func number(display string) (int, error) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(display, "unix"), ":")
	rest, _, _ = strings.Cut(rest, ".")
	n, err := strconv.ParseUint(rest, 10, 16)
	if !ok || err != nil {
		return 0, fault.Invalid("DISPLAY is %.40q, which is not a display of this machine", display).Hint("use a name such as :1")
	}
	return int(n), nil
}

// SocketDir is the folder in which X servers listen and X clients look for
// them.
const SocketDir = "/tmp/.X11-unix"

// Socket is the path of a display's socket.
func Socket(display int) string { return SocketDir + "/X" + strconv.Itoa(display) }

// dial connects to an X server, which may listen only on an abstract socket.
func dial(ctx context.Context, display int) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", Socket(display))
	if err != nil && ctx.Err() == nil {
		if abstract, abstractErr := dialer.DialContext(ctx, "unix", "@"+Socket(display)); abstractErr == nil {
			return abstract, nil
		}
	}
	return conn, err
}
