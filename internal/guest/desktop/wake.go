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

// CodeMissing is of a machine that has no desktop.
const CodeMissing = "desktop_missing"

// Missing is what a machine without a VNC server says.
func Missing() error {
	return fault.NotFound("the machine has no desktop: its image has no VNC server").Named(CodeMissing).
		Hint("put one into the image: tigervnc-standalone-server in Debian and Ubuntu, or `aloft image build --desktop`")
}

// Wake returns when the X server of a display answers. The machine's own is
// started by being asked for, with all of the desktop. display is named as in
// DISPLAY, which is set where the machine has one; it must be of this machine
// (":1", ":1.0"). The error says what is missing ([fault.KindNotFound] with
// [CodeMissing]), or is that of ctx, which bounds the wait. Safe for concurrent
// use; where the server runs it costs a connection, some 0.1 ms.
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
			Hint("start one on it, or unset DISPLAY in the agent's environment variables to have the machine's own")
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// The greeting of X11 without credentials, in little-endian order; whatever
	// is answered, somebody answers.
	if _, err = conn.Write([]byte{'l', 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0}); err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("display %s does not answer: %w", display, context.Cause(ctx))
	}
	return fault.Unavailable("the X server of display %.40q ended", display).Because(err).Hint("try again: it is started anew")
}

// number is that of a display of this machine.
func number(display string) (int, error) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(display, "unix"), ":")
	rest, _, _ = strings.Cut(rest, ".")
	n, err := strconv.ParseUint(rest, 10, 16)
	if !ok || err != nil {
		return 0, fault.Invalid("DISPLAY is %.40q, which is no display of this machine", display).Hint("one is named as :1")
	}
	return int(n), nil
}

// SocketDir is where X servers listen, and X clients look for them.
const SocketDir = "/tmp/.X11-unix"

// Socket is where the X server of a display listens.
func Socket(display int) string { return SocketDir + "/X" + strconv.Itoa(display) }

// dial connects to an X server, which may listen on the abstract socket alone.
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
