package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Background is a command that was started and runs on.
type Background struct {
	PID        int
	OutputFile string // both outputs; its last line tells the exit code, once there is one
	Dir        string // the session's
}

// Start starts a command with the session's state and returns at once. The
// command changes nothing in the session, outlives it, and ends when it will. Its
// output file is emptied when it is longer than Config.MaxOutput.
func (s *Session) Start(ctx context.Context, c Command) (Background, error) {
	if strings.ContainsRune(c.Text, 0) || strings.ContainsRune(c.Dir, 0) {
		return Background{}, errors.New("a command cannot hold a zero byte")
	}
	if err := s.take(ctx); err != nil {
		return Background{}, err
	}
	defer s.give()
	if err := s.ensure(ctx); err != nil {
		return Background{}, err
	}
	mark := newMark()
	text, file := s.file("command-"+mark), filepath.Join(s.cfg.OutputDir, mark+".txt")
	if err := os.WriteFile(text, []byte(c.Text+"\n"), 0o600); err != nil {
		return Background{}, fmt.Errorf("shell: write the command down: %w", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return Background{}, fmt.Errorf("shell: make the output file: %w", err)
	}
	body := `\builtin . ` + quote(text)
	if c.Dir != "" {
		body = `\builtin cd -- ` + quote(c.Dir) + " && " + body
	}
	// Appending lets the file be emptied under its writer. What disown leaves
	// out of the table of jobs, a later wait does not wait for.
	body = fmt.Sprintf("( \\builtin trap '\\builtin printf \"\\n[ended with exit code %%d]\\n\" \"$?\"' EXIT; %s ) </dev/null >>%s 2>&1 &\n"+
		"\\builtin printf %%d \"$!\" >|%s\n\\builtin disown\n", body, quote(file), quote(s.file("pid")))
	if err := s.send(mark, body); err != nil {
		s.drop()
		return Background{}, err
	}
	if err := s.awaitStart(mark); err != nil {
		return Background{}, err
	}
	said, err := os.ReadFile(s.file("pid"))
	if err != nil {
		return Background{}, fmt.Errorf("shell: %w", err)
	}
	pid, err := strconv.Atoi(string(said))
	if err != nil {
		return Background{}, fmt.Errorf("shell: process id of a background command: %w", err)
	}
	s.left.Go(func() { s.watch(pid, file) })
	return Background{PID: pid, OutputFile: file, Dir: s.cwd}, nil
}

// awaitStart waits for bash to have started a background command.
func (s *Session) awaitStart(mark string) error {
	timer := time.NewTimer(startTime)
	defer timer.Stop()
	for {
		select {
		case said := <-s.bash.ends:
			if said == mark {
				_, err := s.reported()
				if err != nil {
					s.drop()
				}
				return err
			}
		case <-s.bash.done:
			s.ended()
			return errors.New("the shell ended as it started the command; a new one is ready, try again")
		case <-timer.C:
			s.drop()
			return fmt.Errorf("the shell did not start the command in %v; a new one is ready, try again", startTime)
		}
	}
}

// watch keeps an output file within bounds for as long as its command runs.
func (s *Session) watch(pid int, file string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if st, err := os.Stat(file); err != nil || st.Size() > s.cfg.MaxOutput {
			_ = os.Truncate(file, 0) // the next tick tries again
		}
		if syscall.Kill(pid, 0) != nil {
			return
		}
	}
}
