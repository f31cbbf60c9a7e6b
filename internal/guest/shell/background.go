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

// Start starts a background command with the session's state and returns at
// once. The command cannot change the session and outlives it. Its input stays
// open for Input while this process lives. Its output file is truncated when it
// grows beyond Config.MaxOutput.
func (s *Session) Start(ctx context.Context, c Command) (Job, error) {
	if strings.ContainsRune(c.Text, 0) || strings.ContainsRune(c.Dir, 0) {
		return Job{}, errors.New("the command must not contain a zero byte")
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
		return Job{}, fmt.Errorf("shell: write the command to a file: %w", err)
	}
	if err := os.WriteFile(j.output(), nil, 0o600); err != nil {
		return Job{}, fmt.Errorf("shell: create the output file: %w", err)
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
		_ = in.w.Close() // if the command is running, it reads end of file
		return Job{}, err
	}
	j.input = in.w
	s.adopt(j)
	state := j.state()
	state.Dir = s.cwd
	return state, nil
}

// forget removes the pipes of a background command once it has opened them. The
// write end of its input stays open.
func (s *Session) forget(in, pids *stream) {
	_ = os.Remove(in.path)
	_ = os.Remove(pids.path)
	_ = in.r.Close()
	pids.close()
}

// launch makes bash start the command under a keeper, a second bash that waits
// for the command and saves its exit code. The command has its own process
// group, so that signals can be sent as from a terminal.
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
	// The command opens its input before it reports its process id, and the keeper never
	// opens it. So once the command has ended, no process has the read end open.
	command := `( \builtin set +m; ` + say(`%d\n`) + "\n" + body + ` ) <` + quote(in) + " 2>&1 &\n"
	keeper := "( " + say("%d ") + `; \builtin set -m; ` + command +
		`\builtin set +em; \builtin wait "$!"; ALOFT_CODE=$?` + "\n" +
		`\builtin printf '\n[ended with exit code %d]\n' "$ALOFT_CODE"; \builtin printf %d "$ALOFT_CODE" >|` + quote(j.exit()) + " )"
	// Append to the output, so that the file can be truncated while it is
	// written. disown removes the keeper from bash's table of jobs, so that a
	// later wait does not wait for it.
	script := keeper + " </dev/null >>" + quote(j.output()) + " 2>/dev/null &\n\\builtin disown\n"
	if err := s.send(j.mark, script); err != nil {
		s.drop()
		return err
	}
	return s.awaitStart(j.mark)
}

// readPIDs reads the process ids that the keeper and the command report.
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

// awaitStart waits until bash has started a background command.
func (s *Session) awaitStart(mark string) error {
	timer := time.NewTimer(startTime)
	defer timer.Stop()
	for {
		select {
		case message := <-s.bash.ends:
			if message == mark {
				_, err := s.reported()
				if err != nil {
					s.drop()
				}
				return err
			}
		case <-s.bash.done:
			s.exitResult()
			return errors.New("the shell ended while it started the command; a new one is ready, try again")
		case <-timer.C:
			s.drop()
			return fmt.Errorf("the shell did not start the command in %v; a new one is ready, try again", startTime)
		}
	}
}

// Intervals for checking the size of a background command's output: long at
// first, and short if it grows so fast that it could exceed the limit in
// between.
const (
	watchSlowly = 250 * time.Millisecond
	watchFast   = 20 * time.Millisecond
)

// watch keeps an output file within its size limit while its command runs.
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
			_ = os.Truncate(j.output(), 0) // on error, the next check tries again
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

// outputPath returns the path of a call's output file.
func outputPath(dir, mark string) string { return filepath.Join(dir, mark+".txt") }

// isRunning reports whether the process with that start time is still running.
func isRunning(pid int, start uint64) bool {
	return pid > 0 && start != 0 && startOf(pid) == start && syscall.Kill(pid, 0) != syscall.ESRCH
}
