// Package terminal runs programs at terminals: PTYs that many may watch and
// that outlive whoever watches them, commands without a terminal for one
// caller, and the tmux sessions that a user and an agent share.
//
// A [Host] holds the PTYs and serves them over WebSockets in the protocol of
// docs/reference/pty.md; who may connect is for its caller to decide. What a
// PTY prints goes into a bounded ring from which every viewer reads at its own
// pace, so that a slow one holds up nobody and costs no memory: it finds a gap.
//
// A [Tmux] speaks with a tmux server that somebody else keeps running, so that
// terminals live longer than this process.
package terminal

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"aloft/internal/fault"
	"aloft/internal/redact"
)

// Bounds of a [Host].
const (
	maxPTYs   = 128
	keepEnded = 2 * time.Minute // an ended PTY can be read for so long
	maxArgs   = 128 << 10       // bytes of a command and its variables
)

// Config is what a Host is made of. All may be left out.
type Config struct {
	Dir        string   // where programs start, absolute; "/" without it
	Environ    []string // NAME=value, of programs; this process's own without it
	Shell      string   // the user's; /bin/bash without it
	Terminals  *Tmux    // nil where there are none
	Scrollback int      // bytes that a PTY keeps; 1 MiB without it
	Log        *slog.Logger
	// Secrets finds what is taken out of what programs say; nil, or a nil
	// Redactor, is nothing.
	Secrets func() *redact.Redactor
}

// Host holds PTYs. Its methods are safe for concurrent use.
type Host struct {
	cfg Config

	mu     sync.Mutex
	ptys   map[string]*PTY
	env    map[string]*string // over the process's own; nil takes one out
	closed bool
}

// New makes a Host. Close it when done.
func New(cfg Config) *Host {
	cfg.Dir = cmp.Or(cfg.Dir, "/")
	cfg.Shell = cmp.Or(cfg.Shell, "/bin/bash")
	if cfg.Environ == nil {
		cfg.Environ = os.Environ()
	}
	if cfg.Scrollback <= 0 {
		cfg.Scrollback = 1 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Host{cfg: cfg, ptys: map[string]*PTY{}, env: map[string]*string{}}
}

// Spec says what to run. Every field may be left out.
type Spec struct {
	ID      string            // of the PTY; made up without it
	Args    []string          // the user's login shell without it
	Env     map[string]string // over the Host's
	Dir     string            // absolute
	Columns uint16            // 80 without it
	Rows    uint16            // 24 without it
}

// Setenv changes what programs started from now on see.
func (h *Host) Setenv(set map[string]string, unset []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, value := range set {
		h.env[name] = &value
	}
	for _, name := range unset {
		h.env[name] = nil
	}
}

// Environ is the environment of programs as [Host.Setenv] has changed it, for
// programs that others start.
func (h *Host) Environ() []string { return h.changed(h.given(), nil) }

// environ is the environment of a new program. A terminal of ours shows
// colours, whatever the agent's own commands are told.
func (h *Host) environ(given map[string]string) []string {
	env := h.given()
	for _, name := range []string{"NO_COLOR", "FORCE_COLOR", "TMUX", "TMUX_PANE"} {
		delete(env, name)
	}
	env["TERM"] = "xterm-256color"
	return h.changed(env, given)
}

// given is the environment that programs begin with.
func (h *Host) given() map[string]string {
	env := make(map[string]string)
	for _, kv := range h.cfg.Environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	return env
}

// changed makes a list of env, with what was set and unset, and given over it.
func (h *Host) changed(env, given map[string]string) []string {
	h.mu.Lock()
	for name, value := range h.env {
		if value == nil {
			delete(env, name)
		} else {
			env[name] = *value
		}
	}
	h.mu.Unlock()
	maps.Copy(env, given)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

var (
	idForm       = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// complete fills in what s leaves out and finds what is wrong with it.
func (h *Host) complete(s Spec) (Spec, error) {
	if s.ID == "" {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		s.ID = hex.EncodeToString(b[:])
	}
	if !idForm.MatchString(s.ID) {
		return s, fault.Invalid("%.70q cannot be the id of a PTY", s.ID).At("id").Hint("1 to 64 letters, digits, _ and -")
	}
	if len(s.Args) == 0 {
		s.Args = []string{h.cfg.Shell, "-l"}
	}
	size := 0
	for _, arg := range s.Args {
		size += len(arg)
		if strings.ContainsRune(arg, 0) {
			return s, fault.Invalid("an argument holds a NUL byte").At("args")
		}
	}
	for name, value := range s.Env {
		size += len(name) + len(value)
		if !variableForm.MatchString(name) || strings.ContainsRune(value, 0) {
			return s, fault.Invalid("%.70q cannot be a variable", name).At("env")
		}
	}
	if size > maxArgs {
		return s, fault.Exhausted("the command and its variables are longer than %d KiB", maxArgs>>10)
	}
	s.Dir = cmp.Or(s.Dir, h.cfg.Dir)
	if info, err := os.Stat(s.Dir); err != nil || !info.IsDir() {
		return s, fault.Invalid("%.200q is not a folder", s.Dir).At("dir").Because(err)
	}
	s.Columns, s.Rows = cmp.Or(s.Columns, 80), cmp.Or(s.Rows, 24)
	return s, nil
}

// Spawn starts a program at a PTY of its own. The PTY goes on until its program
// has ended, whoever watches.
func (h *Host) Spawn(s Spec) (*PTY, error) {
	s, err := h.complete(s)
	if err != nil {
		return nil, err
	}
	env := h.environ(s.Env)
	h.mu.Lock()
	defer h.mu.Unlock()
	running := 0
	for _, p := range h.ptys {
		if !p.ended() {
			running++
		}
	}
	switch {
	case h.closed:
		return nil, fault.Unavailable("no PTY is started any more: this process is about to end")
	case h.ptys[s.ID] != nil && !h.ptys[s.ID].ended():
		return nil, fault.Conflict("the PTY %s is there already", s.ID).Named("pty_exists").Hint("attach to it")
	case running >= maxPTYs:
		return nil, fault.Exhausted("%d PTYs are open", running).Named("too_many_ptys").Hint("close some")
	}
	p, err := startPTY(s, env, h.cfg)
	if err != nil {
		return nil, err
	}
	h.ptys[s.ID] = p
	go func() {
		<-p.Done()
		time.AfterFunc(keepEnded, func() { h.forget(p) })
	}()
	return p, nil
}

func (h *Host) forget(p *PTY) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ptys[p.id] == p {
		delete(h.ptys, p.id)
	}
}

// PTY returns the PTY of that id.
func (h *Host) PTY(id string) (*PTY, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.ptys[id]
	if p == nil {
		return nil, fault.NotFound("no PTY %.70q", id).Named("pty_not_found").Hint("its program has ended, or exec-daemon was started again")
	}
	return p, nil
}

// PTYs returns all PTYs, by the time of their start.
func (h *Host) PTYs() []*PTY {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Collect(maps.Values(h.ptys))
	slices.SortFunc(list, func(a, b *PTY) int {
		return cmp.Or(a.started.Compare(b.started), strings.Compare(a.id, b.id))
	})
	return list
}

// Close ends every PTY and waits for their end. Nothing starts another.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	list := h.PTYs()
	for _, p := range list {
		go p.Close()
	}
	for _, p := range list {
		<-p.Done()
	}
	return nil
}

// startFault says why a program could not be started.
func startFault(program string, err error) error {
	return fault.Invalid("%.200q cannot be started: %s", program, bare(err)).At("args").Because(err)
}

// bare is an error of the system without the path that it repeats.
func bare(err error) string {
	if e, ok := err.(interface{ Unwrap() error }); ok && e.Unwrap() != nil {
		return e.Unwrap().Error()
	}
	return fmt.Sprint(err)
}
