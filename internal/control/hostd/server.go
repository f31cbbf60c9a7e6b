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
	User int // user id of the server; no other user may call
	// Load returns the current text of the configuration, and the files that it
	// names for the server, by path.
	Load func() (text []byte, files map[string][]byte, err error)
	// Open opens the host with a configuration that Load has returned. The
	// host-daemon closes a host before it opens the next.
	Open   func(ctx context.Context, configuration []byte) (*Opened, error)
	Logger *slog.Logger
}

// Opened is a host with the checks that the host-daemon applies to requests.
type Opened struct {
	Host
	// Allow returns an error if the server may not create a machine with that
	// spec. AllowImage returns an error if it may not use that image.
	Allow      func(machine.Spec) error
	AllowImage func(name string) error
}

// Limits on the resources that the server can make the host-daemon use.
const (
	maxCalls    = 4096             // further calls wait; each running machine has one call
	maxRequest  = 8 << 20          // bytes; the largest are lists of thousands of images
	largeFrame  = 64 << 10         // bytes; later frames must not exceed this
	maxLarge    = 16               // concurrent calls with a request above largeFrame
	requestTime = 30 * time.Second // timeout for receiving a request
	endTime     = 10 * time.Second // timeout for running calls when the host-daemon stops
	retryPause  = 100 * time.Millisecond
)

// Daemon serves one server at a time.
type Daemon struct {
	Config

	slots, large chan struct{} // semaphores for calls and for large requests

	mu     sync.Mutex
	loaded map[string][]byte // configurations that Load has returned, by digest
	host   *Opened           // nil until the server opens the host
	calls  sync.WaitGroup
}

// New returns a Daemon. The server's first request opens its Host.
func New(c Config) *Daemon {
	return &Daemon{Config: c, slots: make(chan struct{}, maxCalls), large: make(chan struct{}, maxLarge), loaded: map[string][]byte{}}
}

// Serve serves calls on the listener until ctx ends or the listener fails. Then
// it waits for all calls, and closes the listener and the host.
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

// begin waits for a free slot for a call. It returns false when ctx has ended.
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

// serve handles one call.
func (d *Daemon) serve(ctx context.Context, conn *net.UnixConn) {
	user, group, err := peer(conn)
	if err != nil || user != d.User {
		d.Logger.Warn("refused a call to the host-daemon", "user", user, "error", err)
		return
	}
	// Without deadlines, a server that neither sends nor reads would keep the
	// host-daemon from stopping.
	_ = conn.SetReadDeadline(time.Now().Add(requestTime)) // fails only if the connection has ended
	stop := context.AfterFunc(ctx, func() {
		_, _ = conn.SetReadDeadline(time.Now()), conn.SetWriteDeadline(time.Now().Add(endTime)) // as above
	})
	defer stop()
	room := d.room(ctx)
	defer room.leave()
	kind, content, files, err := readFrame(conn, room.enter)
	defer func() { closeAll(files) }()
	if err != nil || kind != frameRequest {
		return // the server has cancelled the call
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
	_ = s.send(frameResult, r, reply...) // the server may have cancelled the call
}

// A room decides whether a frame of a call may be read into memory, and holds a
// slot for a large request.
type room struct {
	ctx   context.Context
	large chan struct{}
	taken bool
}

func (d *Daemon) room(ctx context.Context) *room { return &room{ctx: ctx, large: d.large} }

// enter waits until a request of size bytes may be read.
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

// enterLater refuses large frames after the request.
func enterLater(size int) error {
	if size > largeFrame {
		return fmt.Errorf("frame of %d bytes is too large", size)
	}
	return nil
}

// peer returns the user id and the group id of the process at the other end of
// the connection.
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
	group  int // group id of the client
	args   json.RawMessage
	files  []*os.File // files of the request
	frames chan frame // the client's later frames, which the method reads

	write sync.Mutex // held while writing a frame
}

// frame is a frame that a client sends after its request.
type frame struct {
	kind    byte
	content []byte
}

// read forwards the client's later frames to s.frames, and cancels the call
// when the connection ends.
func (s *session) read(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	for {
		kind, content, files, err := readFrame(s.conn, enterLater)
		closeAll(files) // later frames have no files
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

// ask makes the client call its answer function, and returns that function's
// error.
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

// codeNotOpen is the fault code of a call made before the host is opened.
const codeNotOpen = "host_not_open"

// isNotOpen reports whether the call failed because the host is not open yet.
func isNotOpen(err error) bool { return err != nil && fault.Of(err).Code == codeNotOpen }

// opened returns the host, if the server has opened it.
func (s *session) opened() (*Opened, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.host == nil {
		return nil, fault.Conflict("the host is not open").Named(codeNotOpen)
	}
	return s.d.host, nil
}
