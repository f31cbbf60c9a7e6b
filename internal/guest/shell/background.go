package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Start starts a command with the session's state and returns at once. The
// command changes nothing in the session, outlives it, and ends when it will;
// its input stays open for Input as long as this process lives. Its output file
// is emptied when it is longer than Config.MaxOutput.
func (s *Session) Start(ctx context.Context, c Command) (Job, error) {
	if strings.ContainsRune(c.Text, 0) || strings.ContainsRune(c.Dir, 0) {
		return Job{}, errors.New("a command cannot hold a zero byte")
	}
	if err := s.take(ctx); err != nil {
		return Job{}, err
	}
	defer s.give()
	if err := s.ensure(ctx); err != nil {
		return Job{}, err
	}
	mark := newMark()
	j := &job{mark: mark, command: c.Text, dir: s.cfg.OutputDir}
	text := s.file("command-" + mark)
	if err := os.WriteFile(text, []byte(c.Text+"\n"), 0o600); err != nil {
		return Job{}, fmt.Errorf("shell: write the command down: %w", err)
	}
	if err := os.WriteFile(j.output(), nil, 0o600); err != nil {
		return Job{}, fmt.Errorf("shell: make the output file: %w", err)
	}
	in, err := openStream(s.file(mark + ".in"))
	if err != nil {
		return Job{}, err
	}
	pids, err := openStream(s.file(mark + ".pid"))
	if err != nil {
		in.close()
		return Job{}, err
	}
	defer s.forget(in, pids)
	if err = s.launch(c, j, text, in.path, pids.path); err == nil {
		err = pids.readPIDs(j)
	}
	if err != nil {
		_ = in.w.Close() // the command, if it runs, sees the end of its input
		return Job{}, err
	}
	j.input = in.w
	s.adopt(j)
	state := j.state()
	state.Dir = s.cwd
	return state, nil
}

// forget removes the pipes of a background command once it has opened them.
// What writes to its input stays open.
func (s *Session) forget(in, pids *stream) {
	_ = os.Remove(in.path)
	_ = os.Remove(pids.path)
	_ = in.r.Close()
	pids.close()
}

// launch has bash start the command, under a keeper: a second bash that waits
// for it, so that its exit code is known whatever it does, and kept. The command
// has a process group of its own, which makes signals as a terminal's possible.
func (s *Session) launch(c Command, j *job, text, in, pids string) error {
	body := `\builtin . ` + quote(text)
	if c.Inside != nil {
		var err error
		if body, err = s.insideBody(c, j.mark); err != nil {
			return err
		}
	}
	if c.Dir != "" {
		body = `\builtin cd -- ` + quote(c.Dir) + " && " + body
	}
	say := func(format string) string { return `\builtin printf '` + format + `' "$BASHPID" >` + quote(pids) }
	// The command opens its input before it says its process id; the keeper
	// never does, so that there is nobody to read once the command has gone.
	command := `( \builtin set +m; ` + say(`%d\n`) + "\n" + body + ` ) <` + quote(in) + " 2>&1 &\n"
	keeper := "( " + say("%d ") + `; \builtin set -m; ` + command +
		`\builtin set +em; \builtin wait "$!"; ALOFT_CODE=$?` + "\n" +
		`\builtin printf '\n[ended with exit code %d]\n' "$ALOFT_CODE"; \builtin printf %d "$ALOFT_CODE" >|` + quote(j.exit()) + " )"
	// Appending lets the file be emptied under its writer. What disown leaves
	// out of the table of jobs, a later wait does not wait for.
	script := keeper + " </dev/null >>" + quote(j.output()) + " 2>/dev/null &\n\\builtin disown\n"
	if err := s.send(j.mark, script); err != nil {
		s.drop()
		return err
	}
	return s.awaitStart(j.mark)
}

// readPIDs reads what the keeper and the command say of themselves.
func (st *stream) readPIDs(j *job) error {
	_ = st.r.SetReadDeadline(time.Now().Add(startTime))
	line, err := bufio.NewReaderSize(st.r, 64).ReadString('\n')
	if err == nil {
		_, err = fmt.Sscanf(line, "%d %d\n", &j.keeper, &j.pid)
	}
	if err != nil {
		return fmt.Errorf("shell: process id of a background command: %w", err)
	}
	j.pidStart, j.keeperStart = startOf(j.pid), startOf(j.keeper)
	return nil
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

// How often the size of a background command's output is looked at: seldom,
// and often once it grows so fast that it could leave its bounds in between.
const (
	watchSlowly = 250 * time.Millisecond
	watchFast   = 20 * time.Millisecond
)

// watch keeps an output file within bounds for as long as its command runs.
func (s *Session) watch(j *job) {
	timer := time.NewTimer(watchFast)
	defer timer.Stop()
	for last := int64(0); ; {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		}
		size := last
		if st, err := os.Stat(j.output()); err == nil {
			size = st.Size()
		}
		if size > s.cfg.MaxOutput {
			_ = os.Truncate(j.output(), 0) // the next look tries again
			size = 0
		}
		if !j.runs() {
			return
		}
		next := watchSlowly
		if size == 0 && last > 0 || size-last > s.cfg.MaxOutput/64 {
			next = watchFast
		}
		last = size
		timer.Reset(next)
	}
}

// outputPath is where the whole output of a call goes.
func outputPath(dir, mark string) string { return filepath.Join(dir, mark+".txt") }

// lives reports whether the process that began at start still runs.
func lives(pid int, start uint64) bool {
	return pid > 0 && start != 0 && startOf(pid) == start && syscall.Kill(pid, 0) != syscall.ESRCH
}
