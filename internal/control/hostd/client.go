package hostd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"aloft/internal/fault"
)

// A Client calls a host-daemon. Its methods are safe for concurrent use.
type Client struct {
	address string // address of the host-daemon's socket
	opening sync.Mutex
	quiet   quiet
}

// NewClient returns a client of the host-daemon that listens at the address of a unix
// socket.
func NewClient(address string) *Client { return &Client{address: address} }

// call is a call in progress.
type call struct {
	conn  *net.UnixConn
	write sync.Mutex // held while writing a frame
}

// options are the optional parts of a call.
type options struct {
	files   []*os.File                  // sent with the request; the caller closes them
	onSent  func()                      // called after the request was sent
	started func(c *call)               // called when the host-daemon has started the work
	line    func(text string)           // called for each line of output
	answer  func(context.Context) error // called when the host-daemon waits for the client
}

// unavailable is the error of a call whose host-daemon does not answer.
func unavailable(method string, err error) error {
	return fault.Unavailable("the host-daemon does not answer").Named("host_daemon_gone").
		Hint("check that it runs (systemctl status aloft-host-daemon), then restart the server").Because(fmt.Errorf("%s: %w", method, err))
}

// do calls the method with args, encoded as JSON. It decodes the result's value
// into value, unless that is nil, and returns the files of the result, which
// the caller must close. On error there are no files. When ctx ends, the
// host-daemon ends the call, and do returns the cause.
func (c *Client) do(ctx context.Context, method string, args, value any, o options) (files []*os.File, err error) {
	files, err = c.try(ctx, method, args, value, o)
	if method == "open" || !isNotOpen(err) || o.onSent != nil {
		return files, err
	}
	// A new host-daemon has taken over, for example after an upgrade.
	if err := c.reopen(ctx); err != nil {
		return nil, err
	}
	return c.try(ctx, method, args, value, o)
}

// reopen makes a new host-daemon load its configuration and open the host.
func (c *Client) reopen(ctx context.Context) error {
	c.opening.Lock()
	defer c.opening.Unlock()
	if _, err := c.try(ctx, "list", none{}, nil, options{}); !isNotOpen(err) {
		return err // another call has already opened the host
	}
	loaded, err := c.Load(ctx)
	if err != nil {
		return err
	}
	_, err = c.try(ctx, "open", loaded.Digest, nil, options{})
	return err
}

// try calls the method once; see do.
func (c *Client) try(ctx context.Context, method string, args, value any, o options) (files []*os.File, err error) {
	data, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.address)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, unavailable(method, err)
	}
	k := &call{conn: conn.(*net.UnixConn)}
	defer func() { _ = k.conn.Close() }()
	// The host-daemon stops the call's work when this end of the connection is
	// closed. Close only the sending direction, so that the result can still be
	// read.
	stop := context.AfterFunc(ctx, func() { _ = k.conn.CloseWrite() })
	defer stop()
	if err := k.send(frameRequest, request{method, data}, o.files...); err != nil && ctx.Err() == nil {
		return nil, unavailable(method, err)
	}
	if o.onSent != nil {
		o.onSent()
	}
	for {
		kind, content, received, err := readFrame(k.conn, func(int) error { return nil })
		if err == nil {
			var last bool
			if last, err = k.receive(ctx, kind, content, value, o); last {
				if err != nil {
					closeAll(received)
					if ctx.Err() != nil {
						err = context.Cause(ctx)
					}
					return nil, err
				}
				return received, nil
			}
			closeAll(received)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if errors.Is(err, io.EOF) {
				err = errors.New("the connection ended")
			}
			return nil, unavailable(method, err)
		}
	}
}

// receive handles a frame of the host-daemon. last is true for the result.
func (k *call) receive(ctx context.Context, kind byte, content []byte, value any, o options) (last bool, err error) {
	switch kind {
	case frameResult:
		var r result
		if err := json.Unmarshal(content, &r); err != nil {
			return true, err
		}
		if r.Error != nil {
			return true, r.Error.decode()
		}
		if value != nil {
			return true, json.Unmarshal(r.Value, value)
		}
		return true, nil
	case frameStarted:
		if o.started != nil {
			o.started(k)
		}
		return false, nil
	case frameLine:
		var text string
		if err := json.Unmarshal(content, &text); err != nil {
			return false, err
		}
		if o.line != nil {
			o.line(text)
		}
		return false, nil
	case frameQuestion:
		if o.answer == nil {
			return false, errors.New("unexpected request from the host-daemon")
		}
		return false, k.send(frameAnswer, encodeError(o.answer(ctx)))
	}
	return false, fmt.Errorf("an unknown frame %q", kind)
}

func (k *call) send(kind byte, content any, files ...*os.File) error {
	k.write.Lock()
	defer k.write.Unlock()
	return writeFrame(k.conn, kind, content, files...)
}
