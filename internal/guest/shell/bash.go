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

// bash is one process. Its script is a pipe that bash itself opens, which is
// closed in every child: so commands cannot read what is meant for bash, and
// their standard input is free.
type bash struct {
	pid    int
	script *os.File    // write end: each line is run
	report *os.File    // named pipe into which bash says how a command ended
	ends   chan string // marks of calls that ended
	done   chan struct{}
	state  *os.ProcessState // valid once done is closed
	hello  string           // what bash says once it has read the login profile
	ready  bool             // it has said so
}

// prelude is what bash runs before the first command. The script was opened
// anew by bash, so descriptor 3 goes; the trap saves what a session that ends
// by exit or set -e leaves behind.
const prelude = `exec 3<&-
BASH_ARGV0=bash
shopt -s expand_aliases
trap %s EXIT
`

// start makes a bash in the session's folder with what was saved of the one
// before it.
func (s *Session) start() (*bash, error) {
	reportPath := filepath.Join(s.dir, "report")
	if err := os.Remove(reportPath); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("shell: %w", err)
	}
	if err := syscall.Mkfifo(reportPath, 0o600); err != nil {
		return nil, fmt.Errorf("shell: make pipe: %w", err)
	}
	// Open for both, so that it has no end of file between two commands.
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
		// The signal at the parent's death is sent at the death of the thread
		// that started the child: this one must last as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // the state says it all
		b.state = cmd.ProcessState
		_ = report.Close() // ends listen
		close(b.done)
	}()
	err = <-started
	_ = r.Close() // the child has its own
	if err != nil {
		_, _ = w.Close(), report.Close()
		return nil, fmt.Errorf("shell: start %s in %s: %w", s.cfg.Bash, cmd.Dir, err)
	}
	b.pid = cmd.Process.Pid
	go b.listen()

	text := fmt.Sprintf(prelude, quote(`\builtin declare -px >|`+quote(s.file("exit.env"))))
	if s.saved != "" {
		// The variables tell of the folder of then.
		text += `\builtin . ` + quote(s.saved) + "\n" + `\builtin cd -- ` + quote(cmd.Dir) + "\n"
	}
	text += fmt.Sprintf("\\builtin printf '%%s\\n' %s >%s\n", b.hello, quote(reportPath))
	_ = b.run(text) // fails if the profile has ended bash; await tells of it
	return b, nil
}

// startTime is how long bash may take to read the login profile.
const startTime = 30 * time.Second

// ensure has a bash that is ready, so that the time of a command is its own. A
// profile that ends bash, or does not end, is left out from then on.
func (s *Session) ensure(ctx context.Context) error {
	if s.bash != nil {
		select {
		case <-s.bash.done: // somebody killed it between two commands
			s.ended()
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
		case said := <-b.ends:
			b.ready = said == b.hello
		case <-b.done:
			return errors.New("bash ended as it started")
		case <-timer.C:
			return fmt.Errorf("bash was not ready after %v", startTime)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// firstDir is where the session was, or the nearest to it that still is.
func (s *Session) firstDir() string {
	for _, dir := range []string{s.cwd, s.cfg.Dir} {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return dir
		}
	}
	return "/"
}

func (s *Session) file(name string) string { return filepath.Join(s.dir, name) }

// run gives bash lines to run.
func (b *bash) run(lines string) error {
	if _, err := b.script.WriteString(lines); err != nil {
		return fmt.Errorf("shell: write to bash: %w", err)
	}
	return nil
}

// listen passes on what bash says of ends, until bash has ended.
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

// kill ends bash and waits for it. What bash started lives on.
func (b *bash) kill() {
	_ = syscall.Kill(b.pid, syscall.SIGKILL) // it is gone, or it goes
	<-b.done
	_ = b.script.Close()
}

// cwd is bash's working directory now.
func (b *bash) cwd() (string, bool) {
	dir, err := os.Readlink("/proc/" + strconv.Itoa(b.pid) + "/cwd")
	return strings.TrimSuffix(dir, " (deleted)"), err == nil
}
