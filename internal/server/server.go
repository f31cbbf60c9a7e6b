// Package server creates and connects the parts of an Aloft server according to
// its configuration. It contains no other logic.
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"aloft/internal/account"
	"aloft/internal/atomicfile"
	"aloft/internal/control/api"
	"aloft/internal/control/artifact"
	"aloft/internal/control/automation"
	"aloft/internal/control/build"
	"aloft/internal/control/disk"
	"aloft/internal/control/fleet"
	"aloft/internal/control/follow"
	"aloft/internal/control/gateway"
	"aloft/internal/control/hostd"
	"aloft/internal/control/inbound"
	"aloft/internal/control/ledger"
	"aloft/internal/control/mcp"
	"aloft/internal/control/mention"
	"aloft/internal/control/observe"
	"aloft/internal/control/schedule"
	"aloft/internal/control/signin"
	"aloft/internal/control/webhook"
	"aloft/internal/server/database"
	"aloft/internal/telemetry"
)

// IdentityFile holds the keys that sign the tokens of machines, in the data folder.
const IdentityFile = "identity.pem"

// Options are how a server is started.
type Options struct {
	Data     string // the data folder
	Listen   string // host:port; port 0 picks a free one
	Embedded fs.FS  // the files that make build embeds: the programs of machines, the OCI runtime, the dashboard
	Version  string // version of this program
	// Listener replaces Listen if it is not nil.
	Listener net.Listener
	// Secrets, if not nil, is called with all secret values of the
	// configuration, including those of connections by admins, before anything
	// about them is logged.
	Secrets func(map[string]string)
}

// Server is a running Aloft server.
type Server struct {
	URL     string // address that it listens on
	KeyFile string // file with the admin API key

	store       database.Store
	artifacts   *artifact.Store
	gateway     *gateway.Gateway
	host        *hostd.Host
	fleet       *fleet.Fleet
	schedule    *schedule.Scheduler
	builder     *build.Builder
	disk        *disk.Guard
	ledger      *ledger.Ledger
	tendImages  func(ctx context.Context) error
	webhooks    *webhook.Sender
	follow      *follow.Desk // nil if pull requests are not followed
	automations *automation.Desk
	mentions    *mention.Desk   // nil if mentions start no agents
	events      *inbound.Worker // nil if there are no connections
	desk        *signin.Desk
	agentMCP    *mcp.Agents
	api         *api.API
	telemetry   *telemetry.Telemetry
	observer    *observe.Observer
	listener    net.Listener
	http        *http.Server
	ready       atomic.Bool
	logger      *slog.Logger
	config      Config // includes the connections by admins
	reload      chan struct{}
	next        net.Listener // the listener for the next server, see Listener
}

// Open returns a server that listens but does not serve yet.
func Open(ctx context.Context, o Options, c Config, logger *slog.Logger) (_ *Server, err error) {
	// Private files are created with a private mode. Other files must be
	// readable by the users of machines, regardless of the inherited umask.
	syscall.Umask(0o022)
	// Processes that the server starts (machines, gateways) have other working
	// directories.
	if o.Data, err = filepath.Abs(o.Data); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	s := &Server{logger: logger, KeyFile: filepath.Join(o.Data, "admin.key"), reload: make(chan struct{}, 1)}
	if err := s.assemble(ctx, o, c); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// stopTime is how long the server waits for open requests when it stops.
const stopTime = 2 * time.Second

// Run serves until ctx is done. It leaves every run in a state that the next start can
// resume. The error wraps [ErrReload] after [Server.Reload].
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	s.http.BaseContext = func(net.Listener) context.Context { return ctx } // ends the streams
	group.Go(func() error {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error { return s.reloading(ctx) })
	group.Go(func() error { return s.schedule.Run(ctx) })
	group.Go(func() error { return s.builder.Run(ctx) })
	group.Go(func() error { return s.disk.Run(ctx) })
	group.Go(func() error { return s.tcpMemory().Run(ctx) })
	group.Go(func() error { return s.ledger.Run(ctx) })
	group.Go(func() error { return s.tendImages(ctx) })
	group.Go(func() error { return s.webhooks.Run(ctx) })
	group.Go(func() error { return s.api.Run(ctx) })
	if s.follow != nil {
		group.Go(func() error { return s.follow.Run(ctx) })
	}
	if s.mentions != nil {
		group.Go(func() error { return s.mentions.Run(ctx) })
	}
	group.Go(func() error { return s.runAutomations(ctx) })
	if s.events != nil {
		group.Go(func() error { return s.events.Run(ctx) })
	}
	group.Go(func() error {
		<-ctx.Done()
		s.ready.Store(false)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if s.http.Shutdown(last) != nil {
			return s.http.Close()
		}
		return nil
	})
	s.ready.Store(true)
	return errors.Join(group.Wait(), s.close())
}

func (s *Server) close() error {
	var errs []error
	if s.listener != nil {
		if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.agentMCP != nil {
		s.agentMCP.Close()
	}
	if s.gateway != nil {
		errs = append(errs, s.gateway.Close())
	}
	if s.host != nil {
		errs = append(errs, s.host.Close())
	}
	if s.artifacts != nil {
		errs = append(errs, s.artifacts.Close())
	}
	s.lastSend()
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}

// lastSend sends the pending telemetry while the store is still open. An unreachable
// receiver is not an error.
func (s *Server) lastSend() {
	last, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if s.observer != nil {
		if err := s.observer.Close(last); err != nil {
			s.logger.Debug("the last metrics were not sent", "error", err)
		}
	}
	if err := s.telemetry.Shutdown(last); err != nil {
		s.logger.Debug("the last telemetry was not sent", "error", err)
	}
}

// firstKey creates the admin and an API key, if the store has no key yet.
func (s *Server) firstKey(ctx context.Context) error {
	n, err := s.store.CountKeys(ctx)
	if err != nil || n > 0 {
		return err
	}
	key := account.NewKey()
	// Write the file before the store: a stored key that nobody can read is useless,
	// while the next start overwrites a file whose key was not stored.
	if err := atomicfile.Write(s.KeyFile, []byte(key+"\n"), 0o600); err != nil {
		return err
	}
	admin, err := s.store.AddUser(ctx, account.User{FirstName: "Admin", Role: account.Owner})
	if err != nil {
		return err
	}
	_, err = s.store.AddKey(ctx, account.APIKey{Name: "admin", UserID: admin.ID, Hash: account.HashKey(key)})
	return err
}

// secretSize is the size of the server's secret, in bytes.
const secretSize = 32

// readSecret returns the secret in the file at path, and creates it if it does not
// exist.
func readSecret(path string) ([]byte, error) {
	secret, err := os.ReadFile(path)
	switch {
	case err == nil && len(secret) == secretSize:
		return secret, nil
	case err == nil:
		return nil, fmt.Errorf("%s: has %d bytes, want %d: restore it, or remove it to recreate the machines of running agents", path, len(secret), secretSize)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	secret = make([]byte, secretSize)
	_, _ = rand.Read(secret) // crypto/rand never returns an error
	return secret, atomicfile.Write(path, secret, 0o600)
}

// privateFolder creates a folder with mode 0700, or removes the permissions of
// group and others from an existing one. It does not change a folder that root
// has created for the group of a server that does not run as root.
func privateFolder(name string) error {
	if err := os.MkdirAll(name, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == 0 && os.Geteuid() != 0 && int(st.Gid) == os.Getegid() && info.Mode().Perm()&0o007 == 0 {
		return nil
	}
	return os.Chmod(name, info.Mode().Perm()&0o700)
}
