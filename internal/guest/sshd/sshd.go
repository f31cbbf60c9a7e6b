// Package sshd is a machine's ssh server, through which a user takes over: a
// shell with a terminal, commands, sftp, and forwarding of ports and unix
// sockets in both directions, as needed by OpenSSH's client and the remote
// development of editors. Everything it starts runs as the user of this
// process.
//
// It does not authenticate clients. It listens on a unix socket with mode 0600,
// so only pod-daemon (root) and the agent's own user can connect; that user
// gains no rights by it. The control plane has checked an API key before it
// forwards a connection. The server must not be exposed on a TCP port.
//
// It uses golang.org/x/crypto/ssh directly. The frameworks on top of it rewrite
// line ends in terminal output, do not report the signal that ended a command,
// and treat the end of one direction of a forwarded connection as the end of
// both.
package sshd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"aloft/internal/redact"
)

// Config configures a Server.
type Config struct {
	StateDir  string          // absolute; folder of the host key and the socket
	Workspace string          // absolute; where an interactive shell starts
	Home      string          // absolute; where everything else starts
	Shell     string          // runs commands; by default /bin/bash, or else /bin/sh
	Environ   func() []string // returns the environment of a new process
	SFTP      []string        // command that serves sftp on its standard input and output
	Log       *slog.Logger    // optional
	// Secrets returns the redactor for output of terminals and commands; nil redacts
	// nothing. sftp, scp and the like, binary output, and forwarded connections are not
	// redacted, since they carry files and editors' protocols.
	Secrets func() *redact.Redactor
}

// SocketName is the name of the socket in the state folder.
const SocketName = "ssh.sock"

// Limits on the resources that a machine's clients can use.
const (
	maxConns    = 64               // concurrent connections; an editor needs a few
	greetTime   = 30 * time.Second // timeout of the handshake
	maxForwards = 128              // concurrent listeners of one connection
	maxEnv      = 256              // variables of one session
)

// Server serves ssh connections. Its methods are safe for concurrent use.
type Server struct {
	cfg    Config
	config *ssh.ServerConfig
	slots  chan struct{} // one per connection
	log    *slog.Logger
}

// New makes a Server, and creates a host key if the state folder has none.
func New(cfg Config) (*Server, error) {
	key, err := hostKey(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	if cfg.Shell == "" {
		cfg.Shell = "/bin/bash"
		if _, err := os.Stat(cfg.Shell); err != nil {
			cfg.Shell = "/bin/sh"
		}
	}
	config := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: "SSH-2.0-Aloft"}
	config.AddHostKey(key)
	return &Server{
		cfg: cfg, config: config, slots: make(chan struct{}, maxConns),
		log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)),
	}, nil
}

// Listen listens on the socket in the state folder, for this user only.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	path := filepath.Join(s.cfg.StateDir, SocketName)
	// Remove the socket of a daemon that was killed.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("ssh: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("ssh: %w", err)
	}
	// The folder is accessible only to this user, so no other user could
	// connect before.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("ssh: %w", err), l.Close())
	}
	return l, nil
}

// Serve serves connections until ctx ends. Then it closes them, waits until their
// commands have been signaled, and returns nil. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel() // runs before the other deferred calls
	for {
		raw, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("ssh: %w", err)
		}
		select {
		case s.slots <- struct{}{}:
		default:
			s.log.Warn("too many ssh connections", "limit", maxConns)
			_ = raw.Close()
			continue
		}
		conns.Go(func() { s.serve(ctx, raw, func() { <-s.slots }) })
	}
}

// serve serves one connection, calls gone when it ends, and waits for the commands that
// it has started.
func (s *Server) serve(stop context.Context, raw net.Conn, gone func()) {
	defer raw.Close()
	ctx, cancel := context.WithCancel(stop)
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	defer cancel()
	_ = raw.SetDeadline(time.Now().Add(greetTime))
	conn, channels, requests, err := ssh.NewServerConn(raw, s.config)
	if err != nil {
		s.log.Info("ssh handshake failed", "err", err)
		gone()
		return
	}
	_ = raw.SetDeadline(time.Time{})
	s.log.Info("ssh connection", "user", conn.User(), "client", string(conn.ClientVersion()))
	c := &client{s: s, stop: stop, ctx: ctx, conn: conn, listeners: map[string]net.Listener{}}
	defer c.work.Wait()
	defer cancel()
	defer gone()
	defer c.closeListeners()
	c.work.Go(func() { c.requests(requests) })
	for open := range channels {
		c.work.Go(func() { c.channel(open) })
	}
}

// client is one connection.
type client struct {
	s    *Server
	stop context.Context // ends with the server
	ctx  context.Context // ends with the connection
	conn *ssh.ServerConn
	work sync.WaitGroup

	mu        sync.Mutex
	listeners map[string]net.Listener // by requested address
}

// channel serves one channel.
func (c *client) channel(open ssh.NewChannel) {
	switch open.ChannelType() {
	case "session":
		c.session(open)
	case "direct-tcpip":
		c.directTCP(open)
	case "direct-streamlocal@openssh.com":
		c.directUnix(open)
	default:
		_ = open.Reject(ssh.UnknownChannelType, "unsupported channel type")
	}
}

// requests answers requests that concern the whole connection.
func (c *client) requests(in <-chan *ssh.Request) {
	for r := range in {
		var ok bool
		var answer []byte
		switch r.Type {
		case "tcpip-forward":
			ok, answer = c.listenTCP(r.Payload)
		case "cancel-tcpip-forward":
			ok = c.cancelTCP(r.Payload)
		case "streamlocal-forward@openssh.com":
			ok = c.listenUnix(r.Payload)
		case "cancel-streamlocal-forward@openssh.com":
			ok = c.cancelUnix(r.Payload)
		case "keepalive@openssh.com":
			ok = true
		}
		if r.WantReply {
			_ = r.Reply(ok, answer)
		}
	}
}
