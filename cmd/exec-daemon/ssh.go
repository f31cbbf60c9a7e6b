package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"

	"aloft/internal/guest/execd"
	"aloft/internal/guest/sshd"
)

// sftpCommand makes this program speak sftp on its standard input and output.
// The ssh server starts it so.
const sftpCommand = "sftp"

// standard is a process's input and output as one connection.
type standard struct {
	io.Reader
	io.WriteCloser
}

// serveSSH serves ssh in the state folder until ctx ends; the returned function
// waits for that. Tools work without it, so that what keeps it from working is
// logged and no more.
func serveSSH(ctx context.Context, cfg config, environ func() []string, secrets *execd.Secrets, log *slog.Logger) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	server, err := newSSH(cfg, environ, secrets, log)
	if err != nil {
		log.ErrorContext(ctx, "ssh is not served", "err", err)
		return cancel
	}
	l, err := server.Listen(ctx)
	if err != nil {
		log.ErrorContext(ctx, "ssh is not served", "err", err)
		return cancel
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(ctx, l); err != nil {
			log.ErrorContext(ctx, "ssh is not served any more", "err", err)
		}
	})
	return func() {
		cancel()
		serving.Wait()
	}
}

func newSSH(cfg config, environ func() []string, secrets *execd.Secrets, log *slog.Logger) (*sshd.Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	home := os.Getenv("HOME")
	if home == "" {
		return nil, errors.New("HOME is not set")
	}
	return sshd.New(sshd.Config{
		StateDir: cfg.StateDir, Workspace: cfg.Workspace, Home: home, Shell: os.Getenv("SHELL"),
		Environ: environ, SFTP: []string{self, sftpCommand}, Secrets: secrets.Redactor, Log: log,
	})
}
