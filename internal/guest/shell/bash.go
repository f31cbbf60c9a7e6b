package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bash is one bash process. It reads its script from a pipe. bash opens that pipe
// itself, and closes it in every child. So commands cannot read the script, and their
// standard input is free.
type bash struct {
	pid    int
	script *os.File    // write end: each line is executed
	report *os.File    // named pipe on which bash reports the end of a command
	ends   chan string // marks of calls that have ended
	done   chan struct{}
	state  *os.ProcessState // exit state; valid once done is closed
	hello  string           // what bash reports once it has read the login profile
	ready  bool             // hello has been received
}

// prelude runs before the first command. It closes descriptor 3, since bash has
// opened the script again itself. The trap saves the variables of a session
// that ends by exit or set -e.
const prelude = `exec 3<&-
BASH_ARGV0=bash
shopt -s expand_aliases
trap %s EXIT
`

// start starts a bash in the session's folder, with the saved state of the
// previous one.
func (s *Session) start() (*bash, error) {
	reportPath := filepath.Join(s.dir, "report")
	if err := os.Remove(reportPath); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("shell: %w", err)
	}
	if err := syscall.Mkfifo(reportPath, 0o600); err != nil {
		return nil, fmt.Errorf("shell: make pipe: %w", err)
	}
	// Open the pipe for reading and writing, so that there is no EOF between two commands.
	report, err := os.OpenFile(reportPath, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("shell: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		_ = report.Close()
		return nil, fmt.Errorf("shell: %w", err)
	}
	args := []string{"--login", "/proc/self/fd/3"}
	if s.plain {
		args = []string{"--noprofile", "/proc/self/fd/3"}
	}
	cmd := exec.Command(s.cfg.Bash, args...)
	cmd.Dir, cmd.Env = s.firstDir(), s.cfg.Env
	cmd.ExtraFiles = []*os.File{r}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}

	b := &bash{script: w, report: report, ends: make(chan string, 1), done: make(chan struct{}), hello: newMark()}
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that started the child
		// ends, so keep this thread alive.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // state has the result
		b.state = cmd.ProcessState
		_ = report.Close() // makes listen return
		close(b.done)
	}()
	err = <-started
	_ = r.Close() // the child has its own copy
	if err != nil {
		_, _ = w.Close(), report.Close()
		return nil, fmt.Errorf("shell: start %s in %s: %w", s.cfg.Bash, cmd.Dir, err)
	}
	b.pid = cmd.Process.Pid
	go b.listen()

	text := fmt.Sprintf(prelude, quote(`\builtin declare -px >|`+quote(s.file("exit.env"))))
	if s.saved != "" {
		// The saved variables include the old folder, so change to the new folder afterwards.
		text += `\builtin . ` + quote(s.saved) + "\n" + `\builtin cd -- ` + quote(cmd.Dir) + "\n"
	}
	text += fmt.Sprintf("\\builtin printf '%%s\\n' %s >%s\n", b.hello, quote(reportPath))
	_ = b.run(text) // fails if the profile ended bash; await reports that
	return b, nil
}

// startTime is how long bash may take to read the login profile.
const startTime = 30 * time.Second

// ensure makes sure that a bash is ready, so that starting it does not count
// against a command's timeout. If the login profile ends bash or hangs, bash
// runs without it from then on.
func (s *Session) ensure(ctx context.Context) error {
	if s.bash != nil {
		select {
		case <-s.bash.done: // bash was killed between two commands
			s.exitResult()
			s.lost = true
		default:
		}
	}
	for {
		if s.bash == nil {
			b, err := s.start()
			if err != nil {
				return err
			}
			s.bash = b
		}
		err := s.bash.await(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		s.drop()
		if s.plain {
			return fmt.Errorf("shell: %w", err)
		}
		s.plain = true
	}
}

// await waits until bash has read its profile.
func (b *bash) await(ctx context.Context) error {
	timer := time.NewTimer(startTime)
	defer timer.Stop()
	for !b.ready {
		select {
		case message := <-b.ends:
			b.ready = message == b.hello
		case <-b.done:
			return errors.New("bash exited while it started")
		case <-timer.C:
			return fmt.Errorf("bash was not ready after %v", startTime)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// firstDir returns the session's last folder, or its nearest parent that still
// exists.
func (s *Session) firstDir() string {
	for _, dir := range []string{s.cwd, s.cfg.Dir} {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return dir
		}
	}
	return "/"
}

func (s *Session) file(name string) string { return filepath.Join(s.dir, name) }

// run sends lines to bash for execution.
func (b *bash) run(lines string) error {
	if _, err := b.script.WriteString(lines); err != nil {
		return fmt.Errorf("shell: write to bash: %w", err)
	}
	return nil
}

// listen forwards bash's reports of ended calls, until bash has exited.
func (b *bash) listen() {
	in := bufio.NewReaderSize(b.report, 4096)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		select {
		case b.ends <- strings.TrimSuffix(line, "\n"):
		case <-b.done:
			return
		}
	}
}

// kill kills bash and waits for it. Processes that bash started keep running.
func (b *bash) kill() {
	_ = syscall.Kill(b.pid, syscall.SIGKILL) // it may have exited already
	<-b.done
	_ = b.script.Close()
}

// cwd returns bash's current working directory.
func (b *bash) cwd() (string, bool) {
	dir, err := os.Readlink("/proc/" + strconv.Itoa(b.pid) + "/cwd")
	return strings.TrimSuffix(dir, " (deleted)"), err == nil
}
