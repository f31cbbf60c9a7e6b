// Package shell is an agent's bash: one process that lasts, so that the login
// profile is read once and the working directory, variables, functions,
// aliases and options that one command sets are there for the next.
//
// The command's text travels in a file that bash sources, its output in named
// pipes that are made for it alone, and the news of its end in another pipe
// that no child inherits: nothing a command prints can be taken for an end.
// A command that outstays its time is killed with all that it started, the bash
// too, for bash has no way to leave a command and keep its state; a new bash
// takes over the working directory and the exported variables.
//
// The shell runs as whoever runs this process. What a command may do is not
// decided here; one that is to run in a sandbox brings the wrapper ([Inside]).
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
	DefaultThreshold = 30000   // bytes of output that a Result holds
)

// ErrClosed is the error of a call on a session that was closed.
var ErrClosed = errors.New("the shell session is closed")

// Config is what a session is made of. Only Dir must be set.
type Config struct {
	Bash      string   // path of bash; "bash" unless given
	Dir       string   // absolute path of the folder in which the session starts
	Env       []string // environment in which the login profile is read; os.Environ() if nil
	OutputDir string   // folder for long output, made when needed; DefaultOutputDir unless given
	MaxOutput int64    // bytes; DefaultMaxOutput unless given
}

// Command is one thing to run.
type Command struct {
	Text      string
	Dir       string        // to change to first; where the session is, if empty
	Timeout   time.Duration // must be positive, save for a background command, which has none
	Threshold int           // bytes of output that the Result holds; DefaultThreshold if 0
	Inside    *Inside       // has it run in a sandbox; nil runs it in the session itself
}

// End is how a command ended.
type End int

// Ends.
const (
	Finished  End = iota // by itself
	TimedOut             // it was killed at its timeout
	Cancelled            // it was killed because the context ended
)

// Result is what came of a command. Stdout and Stderr are valid UTF-8.
type Result struct {
	End         End
	ExitCode    int    // 128+n for signal n
	Signal      string // that ended the command, for example SIGKILL; empty if none did
	Stdout      string // whole, or head and tail with a line between that says what is left out
	Stderr      string
	OutputBytes int64  // of both, before they were cut
	OutputFile  string // holds both as they came; empty if the result is whole
	OutputFull  bool   // OutputFile reached its limit, the rest was thrown away
	Dir         string // of the session after the command
	Duration    time.Duration
	Restarted   bool // the session's bash ended: what was not exported is gone
	Held        bool // something started by the command still runs and holds its output
}

// Session is a bash that lasts. Its methods are safe for concurrent use;
// commands wait for one another.
type Session struct {
	cfg  Config
	dir  string        // private to the session: pipes and files that talk to bash
	turn chan struct{} // holds one token; who took it owns what stands below

	bash    *bash // nil where one must be started
	cwd     string
	plain   bool     // the login profile cannot be read to its end
	lost    bool     // bash ended between two commands, which the next must tell
	pending []string // lines of bash to run before the next command
	saved   string   // file of exported variables; empty if there is none
	closed  bool

	jobsMu sync.Mutex
	jobs   []*job // in the background, oldest first

	folder atomic.Pointer[string] // what Dir returns

	left   sync.WaitGroup // copiers of output of what still runs
	ctx    context.Context
	cancel context.CancelFunc
}

// New starts a session, whose bash reads the login profile while New returns.
// Close ends it.
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
		_ = os.RemoveAll(dir) // the first error says more
		return nil, err
	}
	s.findJobs()
	s.give()
	return s, nil
}

// take waits for the session to be free.
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

// Dir is the working directory in which the last command has left the session. It
// waits for none that runs.
func (s *Session) Dir() string { return *s.folder.Load() }

// Close kills the bash and waits for the copiers of output. Background
// commands live on. Closing twice is no error.
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

// Setenv exports and unsets variables for the commands that come after.
func (s *Session) Setenv(ctx context.Context, set map[string]string, unset []string) error {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !variableName.MatchString(name) || strings.ContainsRune(set[name], 0) {
			return fmt.Errorf("shell: %q cannot be set in an environment", name)
		}
		lines = append(lines, `\builtin export `+name+"="+quote(set[name]))
	}
	for _, name := range unset {
		if !variableName.MatchString(name) {
			return fmt.Errorf("shell: %q is no name of a variable", name)
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

// quote makes text one word of bash.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// newMark returns a word that cannot be guessed. It names one call.
func newMark() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
