// Package sshd is the ssh server of a machine, with which a person takes over:
// a shell with a terminal, commands, sftp, and forwarding of ports and unix
// sockets in both directions, as OpenSSH's client and the remote development
// of editors ask for them. Whatever it starts runs as this process's own user.
//
// It asks nobody who they are. It listens on a unix socket that is its user's
// alone, mode 0600, so only pod-daemon (root) and that user, who gains nothing
// by it, reach it; a person has shown an API key to the control plane before a
// byte comes here. Nobody is to serve it on a port.
//
// It speaks the protocol by golang.org/x/crypto/ssh itself. A framework above
// that rewrites line ends in the output of a terminal, knows no signal that
// ended a command, and takes the end of one direction of a forwarded
// connection for the end of both.
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

// Config is what a Server works with.
type Config struct {
	StateDir  string          // absolute; holds the host key and the socket
	Workspace string          // absolute; where a shell without a command starts
	Home      string          // absolute; where all else starts
	Shell     string          // runs commands; "" is /bin/bash, or else /bin/sh
	Environ   func() []string // of every process, asked for at its start
	SFTP      []string        // the command that speaks sftp on its standard input and output
	Log       *slog.Logger    // without it, nothing is logged
	// Secrets finds what is taken out of what terminals show and commands print;
	// nil is nothing. Sftp, scp and their like, what is no text, and forwarded
	// connections carry files and the protocols of editors, and are let be.
	Secrets func() *redact.Redactor
}

// SocketName is the socket in the state folder.
const SocketName = "ssh.sock"

// Limits on what one machine's clients can make this process hold.
const (
	maxConns    = 64               // at once; an editor needs a few
	greetTime   = 30 * time.Second // for the handshake
	maxForwards = 128              // listening at once, of one connection
	maxEnv      = 256              // variables of one session
)

// Server serves connections. Its methods are safe for concurrent use.
type Server struct {
	cfg    Config
	config *ssh.ServerConfig
	slots  chan struct{} // one for each connection
	log    *slog.Logger
}

// New makes a Server, and a host key where the state folder has none.
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

// Listen listens in the state folder, for this user alone.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	path := filepath.Join(s.cfg.StateDir, SocketName)
	// A daemon that was killed leaves its socket behind.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("ssh: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("ssh: %w", err)
	}
	// The folder is the user's alone too, so nobody came in between.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("ssh: %w", err), l.Close())
	}
	return l, nil
}

// Serve serves connections until ctx ends, then cuts them, waits for what they
// started to be told, and returns nil. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel() // first
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

// serve serves one connection to its end, calls gone, and waits for what it
// has started.
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
	listeners map[string]net.Listener // by what they were asked for
}

// channel serves one channel to its end.
func (c *client) channel(open ssh.NewChannel) {
	switch open.ChannelType() {
	case "session":
		c.session(open)
	case "direct-tcpip":
		c.directTCP(open)
	case "direct-streamlocal@openssh.com":
		c.directUnix(open)
	default:
		_ = open.Reject(ssh.UnknownChannelType, "this server has no such channel")
	}
}

// requests answers what concerns the whole connection.
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
