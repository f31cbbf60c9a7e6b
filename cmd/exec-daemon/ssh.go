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

// sftpCommand is the argument with which the ssh server starts this program as an sftp
// server on standard input and output.
const sftpCommand = "sftp"

// standard combines a process's standard input and output to one connection.
type standard struct {
	io.Reader
	io.WriteCloser
}

// serveSSH serves ssh on a socket in the state folder until ctx ends. The returned
// function waits until serving has ended. Errors are only logged, because tools work
// without ssh.
func serveSSH(ctx context.Context, cfg config, environ func() []string, secrets *execd.Secrets, log *slog.Logger) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	server, err := newSSH(cfg, environ, secrets, log)
	if err != nil {
		log.ErrorContext(ctx, "cannot serve ssh", "err", err)
		return cancel
	}
	l, err := server.Listen(ctx)
	if err != nil {
		log.ErrorContext(ctx, "cannot serve ssh", "err", err)
		return cancel
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(ctx, l); err != nil {
			log.ErrorContext(ctx, "the ssh server has stopped", "err", err)
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
