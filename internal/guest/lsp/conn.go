package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
)

// conn is one end of a JSON-RPC 2.0 connection. Its methods are safe for
// concurrent use.
type conn struct {
	out    chan []byte // messages to write
	done   chan struct{}
	handle func(method string, params json.RawMessage) (any, error)

	mu      sync.Mutex
	err     error // why the connection ended; set before done is closed
	next    int
	waiting map[string]chan<- message
}

// message is a request, a notification or a response.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%.300s (%d)", e.Message, e.Code) }

const (
	codeNoMethod  = -32601
	codeCancelled = -32802 // the server cancelled the request, which may be retried
	maxUnsent     = 256    // maximum number of messages waiting to be written
)

// errDeaf is the error of a connection to a server that does not read its
// input.
var errDeaf = errors.New("the server does not read its input")

// newConn runs a connection over in and out until in ends or a message is
// invalid. handle answers the other end's requests, one at a time, and must not
// wait for the other end. To stop the goroutines, the caller closes in and out.
func newConn(in io.Reader, out io.Writer, handle func(string, json.RawMessage) (any, error)) *conn {
	c := &conn{out: make(chan []byte, maxUnsent), done: make(chan struct{}), handle: handle, waiting: make(map[string]chan<- message)}
	go func() {
		for {
			select {
			case body := <-c.out:
				if _, err := out.Write(frame(body)); err != nil {
					c.end(err)
					return
				}
			case <-c.done:
				return
			}
		}
	}()
	go func() { c.end(c.read(bufio.NewReaderSize(in, maxHeader))) }()
	return c
}

func (c *conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.done)
	}
}

// reason returns why the connection ended.
func (c *conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *conn) read(in *bufio.Reader) error {
	for {
		body, err := readFrame(in)
		if err != nil {
			return err
		}
		var m message
		if err := json.Unmarshal(body, &m); err != nil {
			return fmt.Errorf("its output is not JSON-RPC: %w", err)
		}
		select {
		case <-c.done:
			return nil
		default:
		}
		if m.Method == "" {
			c.mu.Lock()
			answer := c.waiting[string(m.ID)]
			delete(c.waiting, string(m.ID))
			c.mu.Unlock()
			if answer != nil {
				answer <- m // its buffer has room
			}
			continue
		}
		result, err := c.handle(m.Method, m.Params)
		if len(m.ID) == 0 {
			continue
		}
		if err := c.answer(m.ID, result, err); err != nil {
			return err
		}
	}
}

func (c *conn) answer(id json.RawMessage, result any, failure error) error {
	reply := message{Version: "2.0", ID: id}
	if failure != nil {
		reply.Error = &rpcError{Code: codeNoMethod, Message: failure.Error()}
	} else {
		raw, err := json.Marshal(result)
		if err != nil {
			return err
		}
		reply.Result = raw
	}
	body, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	select {
	case c.out <- body:
		return nil
	default: // disconnect a server that sends many requests but reads no responses
		return errDeaf
	}
}

// send writes a message; without an id it is a notification.
func (c *conn) send(ctx context.Context, id json.RawMessage, method string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	body, err := json.Marshal(message{Version: "2.0", ID: id, Method: method, Params: raw})
	if err != nil {
		return err
	}
	select {
	case c.out <- body:
		return nil
	case <-c.done:
		return c.reason()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *conn) notify(ctx context.Context, method string, params any) error {
	return c.send(ctx, nil, method, params)
}

// call sends a request and waits for the response, which it decodes into
// result.
func (c *conn) call(ctx context.Context, method string, params, result any) error {
	answer := make(chan message, 1)
	c.mu.Lock()
	c.next++
	id := strconv.Itoa(c.next)
	c.waiting[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	if err := c.send(ctx, json.RawMessage(id), method, params); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %w", method, m.Error)
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(m.Result, result); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return nil
	case <-c.done:
		return fmt.Errorf("%s: %w", method, c.reason())
	case <-ctx.Done():
		// Best effort: a busy server may skip the answer.
		select {
		case c.out <- []byte(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":` + id + `}}`):
		default:
		}
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}
