// Package lsp finds problems in files with the tools that are installed in the machine:
// language servers, which it finds, starts and keeps running, or, if there are none,
// linters that run once. It speaks the part of the Language Server Protocol that
// diagnostics need, over standard input and output.
//
// Servers are not trusted, so their output is limited in size and time. The package
// kills a server that hangs, sends invalid messages or uses too much memory, and starts
// it again when it is next needed. After several failures the server is disabled for a
// while.
//
// The package implements framing and JSON-RPC itself, because packages such as jsonrpc2
// read a message of any length into memory, and block when a server does not read its
// input.
//
// The package changes no files, and knows nothing about projects except where their
// roots are.
package lsp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of a pool.
const (
	maxFiles    = 200 // checked by one report
	maxServers  = 4   // running at once
	maxFailures = 3   // in a row, before a server is disabled
	coolDown    = 5 * time.Minute
	tendEvery   = 5 * time.Second
)

// Config configures a pool. Only Dir is required.
type Config struct {
	Dir      string        // absolute path of the tree's root
	MarkFile string        // stores the point from which changes count; empty for none
	Env      []string      // environment of the programs; this process's if nil
	Only     []string      // names of the programs to use; all by default
	Ripgrep  string        // path of rg; "rg" by default
	Patience time.Duration // timeout of one report; a minute by default
	Idle     time.Duration // idle time after which a server is stopped; 10 minutes by default
	Memory   int64         // memory limit of a server with its children, in bytes; 2 GiB by default
	Log      *slog.Logger  // nil for none
}

// Pool runs the servers of one tree. Its methods are safe for concurrent use;
// reports are made one after another.
type Pool struct {
	cfg  Config
	turn chan struct{} // semaphore: holds one value while no report is being made
	quit chan struct{}
	wg   sync.WaitGroup
	mark mark
	set  chan struct{} // closed once mark is known

	mu       sync.Mutex
	closed   bool
	servers  map[serverKey]*server
	failures map[serverKey]failure
	tending  bool
}

type serverKey struct{ linter, root string }

type failure struct {
	count int
	last  time.Time
	why   error
}

// Report is the result of linting.
type Report struct {
	Diagnostics []Diagnostic // the most severe first, then by path and line
	Total       int          // total number; Diagnostics may hold only the first
	Files       int          // number of files checked
	Sources     []string     // names of the linters that ran
	Notes       []string     // what is missing or was left out, as text for the model
}

// ErrClosed is returned after Close.
var ErrClosed = errors.New("lsp: closed")

var errPatience = errors.New("not all results arrived in time")

// New returns a pool. It starts no server. In the background it determines the
// mark from which changes count.
func New(cfg Config) *Pool {
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	if cfg.Ripgrep == "" {
		cfg.Ripgrep = "rg"
	}
	if cfg.Patience == 0 {
		cfg.Patience = time.Minute
	}
	if cfg.Idle == 0 {
		cfg.Idle = 10 * time.Minute
	}
	if cfg.Memory == 0 {
		cfg.Memory = 2 << 30
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pool{cfg: cfg, turn: make(chan struct{}, 1), quit: make(chan struct{}), set: make(chan struct{}),
		servers: make(map[serverKey]*server), failures: make(map[serverKey]failure)}
	p.turn <- struct{}{}
	p.wg.Go(func() {
		defer close(p.set)
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		p.mark = readMark(ctx, cfg.MarkFile, cfg.Dir, cfg.Env)
	})
	return p
}

// Lint checks files, and the files in folders; without paths it checks the
// files that have changed. Paths are absolute. Files for which hidden returns
// true are skipped; a nil hidden hides nothing. Errors are about the paths;
// problems with linters are in the report's notes. When ctx ends, Lint returns
// soon with its cause.
func (p *Pool) Lint(ctx context.Context, paths []string, hidden func(path string) bool) (Report, error) {
	if hidden == nil {
		hidden = func(string) bool { return false }
	}
	select {
	case <-p.turn:
		defer func() { p.turn <- struct{}{} }()
	case <-ctx.Done():
		return Report{}, context.Cause(ctx)
	}
	select {
	case <-p.quit:
		return Report{}, ErrClosed
	default:
	}
	within, stop := context.WithTimeoutCause(ctx, p.cfg.Patience, errPatience)
	defer stop()
	<-p.set
	changed, err := p.mark.changed(within, p.cfg.Ripgrep, p.cfg.Dir, p.cfg.Env)
	if err != nil && len(paths) == 0 {
		return Report{}, err
	}
	var r Report
	files, err := p.files(within, &r, paths, changed, hidden)
	if err != nil {
		return Report{}, err
	}
	r.Files = len(files)
	p.lint(within, &r, files, changed)
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	r.Diagnostics = slices.DeleteFunc(r.Diagnostics, func(d Diagnostic) bool { return hidden(d.Path) })
	r.Diagnostics, r.Total = tidy(r.Diagnostics)
	return r, nil
}

// files returns the files to check: those of supported languages, up to the
// limit.
func (p *Pool) files(ctx context.Context, r *Report, paths, changed []string, hidden func(string) bool) ([]string, error) {
	var all []string
	unknown := make(map[string]bool)
	add := func(path string, named bool) {
		switch {
		case hidden(path):
		case languageOf(path) != nil:
			all = append(all, path)
		case named:
			unknown[filepath.Base(path)] = true
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case info.IsDir():
			under, err := listFiles(ctx, p.cfg.Ripgrep, path, p.cfg.Env)
			if err != nil {
				return nil, err
			}
			for _, f := range under {
				add(f, false)
			}
		default:
			add(path, true)
		}
	}
	if len(paths) == 0 {
		for _, f := range changed {
			if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
				add(f, false)
			}
		}
	}
	if len(unknown) > 0 {
		r.note("no linter is supported for %s", strings.Join(sorted(unknown), ", "))
	}
	all = unique(all)
	if len(all) > maxFiles {
		r.note("only the first %d of %d files were checked; name fewer to check the others", maxFiles, len(all))
		all = all[:maxFiles]
	}
	return all, nil
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, clip(fmt.Sprintf(format, args...), 600))
}

// Close stops all servers. It waits for a report that is being made. A second
// call does nothing.
func (p *Pool) Close() error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.quit)
	}
	p.mu.Unlock()
	<-p.turn
	defer func() { p.turn <- struct{}{} }()
	p.mu.Lock()
	servers := p.servers
	p.servers = make(map[serverKey]*server)
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(s.stop)
	}
	wg.Wait()
	p.wg.Wait()
	return nil
}
