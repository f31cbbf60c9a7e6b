// Package lsp finds faults in files by what the machine has for that: language
// servers, which it finds, starts and keeps, and where there is none, linters
// that run once. It speaks the Language Server Protocol over standard input
// and output, as much of it as diagnostics need.
//
// A server is a program of the machine's, so what it says is bounded in size
// and in time: one that is silent, talks nonsense or grows is ended, started
// again when it is next needed, and after some failures left alone for a while.
//
// It changes no file, and knows nothing of projects but where their roots are.
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

// Bounds of what a pool does.
const (
	maxFiles    = 200 // that one report looks at
	maxServers  = 4   // that run at once
	maxFailures = 3   // in a row, before a server is left alone
	coolDown    = 5 * time.Minute
	tendEvery   = 5 * time.Second
)

// Config says where a pool works. Only Dir must be set.
type Config struct {
	Dir      string        // root of the tree; absolute
	MarkFile string        // keeps what "changed" counts from; empty for none
	Env      []string      // of the programs; this process's if nil
	Only     []string      // programs that are used, by name; all unless given
	Ripgrep  string        // path of rg; "rg" unless given
	Patience time.Duration // for one report; a minute unless given
	Idle     time.Duration // after which a server is stopped; 10 minutes unless given
	Memory   int64         // bytes of a server with its children; 2 GiB unless given
	Log      *slog.Logger  // nil for none
}

// Pool holds the servers of one tree. Its methods are safe for concurrent use;
// reports are made one after another.
type Pool struct {
	cfg  Config
	turn chan struct{} // holds one value while nobody works
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

// Report is what was found.
type Report struct {
	Diagnostics []Diagnostic // the worst first, then by path and line
	Total       int          // of which Diagnostics may be the first
	Files       int          // looked at
	Sources     []string     // the linters that spoke
	Notes       []string     // what is missing or was left out, for the reader
}

// ErrClosed is returned once Close was called.
var ErrClosed = errors.New("lsp: closed")

var errPatience = errors.New("not all was said in time")

// New returns a pool. It starts no server, and notes in the background what the
// tree is now.
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

// Lint reports on files and on what is in folders, or, where no path is given,
// on what has changed. Paths are absolute. What hidden says true of is left out;
// nil hides nothing. An error says what is wrong with the paths; what is wrong
// with linters is in the report's notes. When ctx ends it returns soon with its
// cause.
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

// files are those to look at: of a kind that is known, and not too many.
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
		r.note("no linter is known here for %s", strings.Join(sorted(unknown), ", "))
	}
	all = unique(all)
	if len(all) > maxFiles {
		r.note("only the first %d of %d files were looked at; name fewer to see the others", maxFiles, len(all))
		all = all[:maxFiles]
	}
	return all, nil
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, clip(fmt.Sprintf(format, args...), 600))
}

// Close stops all servers. It waits for a report that is being made, and a
// second call does nothing.
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
