package hostd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/control/poll"
	"aloft/internal/fault"
)

// Config configures a [Daemon].
type Config struct {
	User int // user id of the server, which alone may call
	// Load returns the text of the configuration as it is now, and the files that it
	// names for the server, by their paths.
	Load func() (text []byte, files map[string][]byte, err error)
	// Open opens the host with a configuration that Load has returned. The host-daemon
	// closes the host before it opens the next one.
	Open   func(ctx context.Context, configuration []byte) (*Opened, error)
	Logger *slog.Logger
}

// Opened is a host, and what the host-daemon must know to bound what is asked of it.
type Opened struct {
	Host
	// Allow returns an error unless the server may have such a machine, and
	// AllowImage unless it may have such an image.
	Allow      func(machine.Spec) error
	AllowImage func(name string) error
}

// Limits of what the server can make the host-daemon hold.
const (
	maxCalls    = 4096             // further ones wait; each machine has one for as long as it runs
	maxRequest  = 8 << 20          // bytes; the largest are lists of thousands of images
	largeFrame  = 64 << 10         // bytes; the content of later frames is smaller
	maxLarge    = 16               // calls with a larger request at the same time
	requestTime = 30 * time.Second // for a request to arrive
	endTime     = 10 * time.Second // for calls to end when the host-daemon stops
	retryPause  = 100 * time.Millisecond
)

// Daemon serves one server at a time.
type Daemon struct {
	Config

	slots, large chan struct{} // hold an entry for each call, and for each large request

	mu     sync.Mutex
	loaded map[string][]byte // configurations that Load has returned, by their digest
	host   *Opened           // nil before the first opening
	calls  sync.WaitGroup
}

// New returns a Daemon. Its Host is opened at the request of the server.
func New(c Config) *Daemon {
	return &Daemon{Config: c, slots: make(chan struct{}, maxCalls), large: make(chan struct{}, maxLarge), loaded: map[string][]byte{}}
}

// Serve answers the calls that come from the listener until ctx is done or the listener
// fails. It closes the listener and the host, after all calls have ended.
func (d *Daemon) Serve(ctx context.Context, l *net.UnixListener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	retry := poll.New(retryPause)
	var err error
	for d.begin(ctx) {
		var conn *net.UnixConn
		conn, err = l.AcceptUnix()
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			d.Logger.Error("cannot accept a call to the host-daemon", "error", err)
			<-d.slots
			if retry.Pause(ctx) != nil {
				break
			}
			continue
		}
		if err != nil {
			break
		}
		d.calls.Go(func() {
			defer func() { _ = conn.Close(); <-d.slots }()
			d.serve(ctx, conn)
		})
	}
	if ctx.Err() != nil {
		err = nil
	}
	cancel()
	d.calls.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(err, d.close())
}

// begin waits until another call may begin. It returns false when ctx has ended.
func (d *Daemon) begin(ctx context.Context) bool {
	select {
	case d.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// close closes the host. The caller holds d.mu.
func (d *Daemon) close() error {
	if d.host == nil {
		return nil
	}
	err := d.host.Close()
	d.host = nil
	return err
}

// serve answers one call.
func (d *Daemon) serve(ctx context.Context, conn *net.UnixConn) {
	user, group, err := peer(conn)
	if err != nil || user != d.User {
		d.Logger.Warn("refused a call to the host-daemon", "user", user, "error", err)
		return
	}
	// A server that neither sends nor reads does not keep the host-daemon running.
	_ = conn.SetReadDeadline(time.Now().Add(requestTime)) // it fails only if the connection has ended
	stop := context.AfterFunc(ctx, func() {
		_, _ = conn.SetReadDeadline(time.Now()), conn.SetWriteDeadline(time.Now().Add(endTime)) // as above
	})
	defer stop()
	room := d.room(ctx)
	defer room.leave()
	kind, content, files, err := readFrame(conn, room.enter)
	defer func() { closeAll(files) }()
	if err != nil || kind != frameRequest {
		return // the server has given up
	}
	var q request
	if err := json.Unmarshal(content, &q); err != nil {
		d.Logger.Error("invalid call to the host-daemon", "error", err)
		return
	}
	if ctx.Err() == nil {
		_ = conn.SetReadDeadline(time.Time{}) // as above
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &session{d: d, conn: conn, group: group, args: q.Args, files: files, frames: make(chan frame)}
	go s.read(ctx, cancel)
	var value any
	var reply []*os.File
	err = fault.Contain(func() (err error) {
		m, ok := methods[q.Method]
		if !ok {
			return fault.NotImplemented("the host-daemon has no method %q", q.Method).Hint("start server and host-daemon with the same version of Aloft")
		}
		value, reply, err = m(ctx, s)
		return err
	})
	defer closeAll(reply)
	r := result{Error: encodeError(err)}
	if err == nil {
		r.Value, err = json.Marshal(value)
		if err != nil {
			r.Error = encodeError(err)
		}
	}
	_ = s.send(frameResult, r, reply...) // the server may have given up
}

// A room is the right of a call to have a large request.
type room struct {
	ctx   context.Context
	large chan struct{}
	taken bool
}

func (d *Daemon) room(ctx context.Context) *room { return &room{ctx: ctx, large: d.large} }

// enter waits until a request of the size can be read.
func (r *room) enter(size int) error {
	switch {
	case size > maxRequest:
		return fmt.Errorf("request of %d bytes is too large", size)
	case size <= largeFrame:
		return nil
	}
	select {
	case r.large <- struct{}{}:
		r.taken = true
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

func (r *room) leave() {
	if r.taken {
		<-r.large
	}
}

// enterLater refuses a large content of a later frame.
func enterLater(size int) error {
	if size > largeFrame {
		return fmt.Errorf("frame of %d bytes is too large", size)
	}
	return nil
}

// peer returns the user id and the group id of the process at the other end.
func peer(conn *net.UnixConn) (user, group int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, -1, err
	}
	var cred *unix.Ucred
	err = errors.Join(raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }), err)
	if err != nil {
		return -1, -1, err
	}
	return int(cred.Uid), int(cred.Gid), nil
}

// A session is the host-daemon's end of a call.
type session struct {
	d      *Daemon
	conn   *net.UnixConn
	group  int // of the client
	args   json.RawMessage
	files  []*os.File // of the request
	frames chan frame // later frames of the client, for the method to read

	write sync.Mutex // held while writing a frame
}

// frame is a later frame of a client.
type frame struct {
	kind    byte
	content []byte
}

// read passes on the client's later frames, and cancels the call when its connection
// ends.
func (s *session) read(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	for {
		kind, content, files, err := readFrame(s.conn, enterLater)
		closeAll(files) // no later frame has any
		if err != nil {
			return
		}
		select {
		case s.frames <- frame{kind, content}:
		case <-ctx.Done():
			return
		}
	}
}

func (s *session) send(kind byte, content any, files ...*os.File) error {
	s.write.Lock()
	defer s.write.Unlock()
	return writeFrame(s.conn, kind, content, files...)
}

// ask makes the client act, and returns its error.
func (s *session) ask(ctx context.Context) error {
	if err := s.send(frameQuestion, nil); err != nil {
		return err
	}
	select {
	case f := <-s.frames:
		var answer *errorText
		if f.kind != frameAnswer {
			return fmt.Errorf("unexpected frame %q instead of a reply", f.kind)
		}
		if err := json.Unmarshal(f.content, &answer); err != nil {
			return err
		}
		return answer.decode()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// codeNotOpen is the code of the fault of a call before the host is opened.
const codeNotOpen = "host_not_open"

// isNotOpen reports whether the error is that of a call before the host is opened.
func isNotOpen(err error) bool { return err != nil && fault.Of(err).Code == codeNotOpen }

// opened returns the host that the server has opened.
func (s *session) opened() (*Opened, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.host == nil {
		return nil, fault.Conflict("the host is not open").Named(codeNotOpen)
	}
	return s.d.host, nil
}
