// Package shell runs an agent's commands in a long-lived bash process. The login profile
// is read once, and the working directory, variables, functions, aliases and options
// that one command sets are kept for the next.
//
// bash sources a command's text from a file, writes its output to named pipes made for
// that command, and reports its end on another pipe that no child inherits. So no output
// of a command can be confused with its end. A command that exceeds its timeout is
// killed with everything it started, including bash, because bash cannot abort a command
// and keep its state. A new bash takes over the working directory and the exported
// variables.
//
// The shell runs as the user of this process. This package does not decide what a
// command may do: for a command in a sandbox, the caller provides the wrapper
// ([Inside]).
package shell

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of a session.
const (
	DefaultOutputDir = "/tmp/aloft/output"
	DefaultMaxOutput = 1 << 30 // bytes of one command's output that are kept in its file
	DefaultThreshold = 30000   // bytes of output in a Result
)

// ErrClosed is returned by methods of a closed session.
var ErrClosed = errors.New("the shell session is closed")

// Config configures a session. Only Dir is required.
type Config struct {
	Bash      string   // path of bash; "bash" by default
	Dir       string   // absolute path of the folder in which the session starts
	Env       []string // environment in which the login profile is read; os.Environ() if nil
	OutputDir string   // folder for long output, created when needed; DefaultOutputDir by default
	MaxOutput int64    // bytes; DefaultMaxOutput by default
}

// Command is a command to run.
type Command struct {
	Text      string
	Dir       string        // folder to change to first; if empty, the session's current folder
	Timeout   time.Duration // must be positive, except for a background command, which has none
	Threshold int           // bytes of output in the Result; DefaultThreshold if 0
	Inside    *Inside       // runs it in a sandbox; nil runs it in the session itself
}

// End says how a command ended.
type End int

// The ways in which a command can end.
const (
	Finished  End = iota // it exited by itself
	TimedOut             // it was killed at its timeout
	Cancelled            // it was killed because the context ended
)

// Result is the result of a command. Stdout and Stderr are valid UTF-8.
type Result struct {
	End         End
	ExitCode    int    // 128+n for signal n
	Signal      string // the signal that killed it, for example SIGKILL; empty if none did
	Stdout      string // complete, or the beginning and the end with a line between that says how much is left out
	Stderr      string
	OutputBytes int64  // of both streams, before truncation
	OutputFile  string // has both streams in order of arrival; empty if the result is complete
	OutputFull  bool   // OutputFile reached its limit, and the rest was discarded
	Dir         string // the session's folder after the command
	Duration    time.Duration
	Restarted   bool // the session's bash ended: state that was not exported is lost
	Held        bool // a process that the command started is still running and has its output open
}

// Session is a long-lived bash. Its methods are safe for concurrent use;
// commands run one after the other.
type Session struct {
	cfg  Config
	dir  string        // private folder for the pipes and files that bash uses
	turn chan struct{} // holds one token, whose owner may use the fields below

	bash    *bash // nil if bash must be started
	cwd     string
	plain   bool     // skip the login profile, which did not finish
	lost    bool     // bash ended between two commands, which the next result must say
	pending []string // lines for bash to run before the next command
	saved   string   // file of exported variables; empty if there is none
	closed  bool

	jobsMu sync.Mutex
	jobs   []*job // background commands, oldest first

	folder atomic.Pointer[string] // returned by Dir

	left   sync.WaitGroup // goroutines that copy output of processes that are still running
	ctx    context.Context
	cancel context.CancelFunc
}

// New starts a session; its bash reads the login profile before New returns.
// The caller must Close it.
func New(cfg Config) (*Session, error) {
	if cfg.Bash == "" {
		cfg.Bash = "bash"
	}
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	if cfg.OutputDir == "" {
		cfg.OutputDir = DefaultOutputDir
	}
	if cfg.MaxOutput == 0 {
		cfg.MaxOutput = DefaultMaxOutput
	}
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("shell: folder %q is not absolute", cfg.Dir)
	}
	if err := os.MkdirAll(cfg.OutputDir, 0o700); err != nil {
		return nil, fmt.Errorf("shell: %w", err)
	}
	sweep(cfg.OutputDir)
	dir, err := makeDir(cfg.OutputDir)
	if err != nil {
		return nil, err
	}
	s := &Session{cfg: cfg, dir: dir, turn: make(chan struct{}, 1), cwd: cfg.Dir}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.bash, err = s.start(); err != nil {
		s.cancel()
		_ = os.RemoveAll(dir) // the first error is reported
		return nil, err
	}
	s.findJobs()
	s.give()
	return s, nil
}

// take waits until no other command is running.
func (s *Session) take(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-s.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.closed {
		s.give()
		return ErrClosed
	}
	return nil
}

func (s *Session) give() {
	dir := s.cwd
	s.folder.Store(&dir)
	s.turn <- struct{}{}
}

// Dir returns the working directory after the last command. It does not wait
// for a running command.
func (s *Session) Dir() string { return *s.folder.Load() }

// Close kills bash and waits for the copying goroutines. Background commands
// keep running. Closing twice is not an error.
func (s *Session) Close() error {
	<-s.turn
	defer s.give()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.bash != nil {
		s.bash.kill()
		s.bash = nil
	}
	s.cancel()
	s.left.Wait()
	for _, j := range s.jobs {
		j.mu.Lock()
		j.closeInput()
		j.mu.Unlock()
	}
	return os.RemoveAll(s.dir)
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Setenv exports and unsets variables for later commands.
func (s *Session) Setenv(ctx context.Context, set map[string]string, unset []string) error {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !variableName.MatchString(name) || strings.ContainsRune(set[name], 0) {
			return fmt.Errorf("shell: the variable %q cannot be set", name)
		}
		lines = append(lines, `\builtin export `+name+"="+quote(set[name]))
	}
	for _, name := range unset {
		if !variableName.MatchString(name) {
			return fmt.Errorf("shell: %q is not a valid variable name", name)
		}
		lines = append(lines, `\builtin unset -v `+name)
	}
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	s.pending = append(s.pending, lines...)
	return nil
}

// quote quotes text as one word for bash.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// newMark returns an unguessable word that identifies one call.
func newMark() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
