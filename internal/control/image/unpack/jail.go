package unpack

import (
	"bufio"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"aloft/internal/control/confine"
)

// Names and limits of the resources of a process in a jail, and limits of its
// messages.
const (
	memory     = 1 << 30         // bytes; a zstd stream may need maxWindow
	stallAfter = 5 * time.Minute // timeout for a process that does not read its input
	checkEvery = time.Second     // interval of the disk checks while a process writes
	maxReport  = 1<<20 + 256     // bytes of a report; an entry's name has at most 1 MiB
	maxMarks   = 2 * maxEntries  // number of reports of marks
	maxError   = 4 << 10         // bytes of a process's error that are shown
)

// ownersAndModes are the capabilities with which a process sets the owners and
// modes of files. The process sees only the folder of a layer.
var ownersAndModes = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SETFCAP}

// expandInJail decompresses r in a process that sees no files.
func (u *Unpacker) expandInJail(ctx context.Context, r io.Reader) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := u.command(ctx, "expand")
	out, err := cmd.StdoutPipe()
	if err == nil {
		var p *process
		if p, err = u.start(cmd, confine.Jail{}, r, func(byte, []byte) error { return errReport }); err == nil {
			return &expanding{out: out, end: sync.OnceValue(func() error { return p.wait(ctx) }), cancel: cancel}, nil
		}
	}
	cancel()
	return nil, err
}

// expanding is the output of a process that decompresses.
type expanding struct {
	out    io.Reader
	end    func() error // waits for the end of the process
	cancel func()       // kills the process
}

func (e *expanding) Read(b []byte) (int, error) {
	n, err := e.out.Read(b)
	if errors.Is(err, io.EOF) {
		err = errors.Join(e.end())
		if err == nil {
			err = io.EOF
		}
	}
	return n, err
}

// Close kills the process if it still runs.
func (e *expanding) Close() error {
	e.cancel()
	_ = e.end() // killed, so an error is expected
	return nil
}

// unpackInJail unpacks an archive in a process that sees only the destination
// folder, and sets the marks that the process reports.
func (u *Unpacker) unpackInJail(ctx context.Context, r io.Reader, root *os.Root, saved bool, entries func(n int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	j := confine.Jail{Write: []string{root.Name()}, Capabilities: ownersAndModes, FileBytes: MaxBytes}
	kind := "layer"
	if saved {
		kind = "saved"
		j.Capabilities = append(j.Capabilities[:len(j.Capabilities):len(j.Capabilities)], unix.CAP_MKNOD)
	}
	marked := 0
	p, err := u.start(u.command(ctx, kind, root.Name()), j, r, func(kind byte, content []byte) error {
		switch {
		case kind == reportEntries && len(content) == 4:
			return entries(int(min(binary.BigEndian.Uint32(content), maxEntries)))
		case kind == reportMark && len(content) > 1 && marked < maxMarks:
			marked++
			return markOf{dir: string(content[1:]), mark: mark(content[0])}.set(root)
		}
		return errReport
	})
	if err != nil {
		return err
	}
	var checks sync.WaitGroup
	checks.Go(func() {
		tick := time.NewTicker(checkEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := entries(0); err != nil {
					p.fail(err)
					return
				}
			}
		}
	})
	err = p.wait(ctx)
	cancel()
	checks.Wait()
	return err
}

// programFiles returns the path of this program, followed by the folders of the
// system's libraries if it needs them.
func programFiles() ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	files := []string{program}
	if !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return files, nil // release builds are static; go test links dynamically
	}
	for _, dir := range []string{"/usr/lib", "/usr/lib64", "/lib", "/lib64"} {
		if _, err := os.Stat(dir); err == nil {
			files = append(files, dir)
		}
	}
	return files, nil
}

var (
	errReport = errors.New("the unpacker's process sent an unexpected report")
	errStall  = fmt.Errorf("the unpacker's process did not read for %v", stallAfter)
	errEarly  = errors.New("the unpacker's process ended before its input")
)

func (u *Unpacker) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, u.programs[0])
	cmd.Args = append([]string{processName}, args...)
	if u.args != nil {
		cmd.Args = u.args
	}
	cmd.Env = []string{"GOMAXPROCS=2"}
	cmd.Dir = "/"
	return cmd
}

// process is a process of this program in a jail.
type process struct {
	cmd     *exec.Cmd
	release func()
	stall   *time.Timer
	busy    sync.WaitGroup // the goroutines that write its input and read its reports

	mu       sync.Mutex
	err      error // why the server killed the process, or the error that the process reported
	finished bool  // the process reported that it has finished
	atEnd    bool  // the process has received all of its input
}

// start starts the command with the input r. It calls on for each report except
// those about the process's end. If on returns an error, the process is killed.
func (u *Unpacker) start(cmd *exec.Cmd, j confine.Jail, r io.Reader, on func(kind byte, content []byte) error) (*process, error) {
	j.Bare, j.User, j.Execute, j.DataBytes = true, confine.Nobody, u.programs, memory
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	cmd.ExtraFiles = []*os.File{to}
	// The process gets only pipes. It could change the owner of any other file,
	// such as the host's /dev/null, which exec opens for commands without an
	// output.
	cmd.Stderr = io.Discard
	if cmd.Stdout == nil {
		cmd.Stdout = io.Discard
	}
	p := &process{cmd: cmd}
	p.release, err = u.host.Start(cmd, j)
	_ = to.Close() // the process has its own copy
	if err != nil {
		_ = in.Close() // Start may have closed it
		return nil, errors.Join(err, from.Close())
	}
	p.stall = time.AfterFunc(stallAfter, func() { p.fail(errStall) })
	p.busy.Go(func() {
		defer func() { _ = in.Close() }()
		p.feed(in, r)
	})
	p.busy.Go(func() {
		defer func() { _ = from.Close() }()
		if err := p.follow(bufio.NewReader(from), on); err != nil {
			p.fail(err)
		}
	})
	return p, nil
}

// fail records the error and kills the process.
func (p *process) fail(err error) {
	p.note(err)
	_ = p.cmd.Process.Kill() // the process may have ended
}

// note records the error, unless there is an earlier one.
func (p *process) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

// feed writes r to the process.
func (p *process) feed(w io.Writer, r io.Reader) {
	buffer := make([]byte, bufferSize)
	for {
		p.stall.Stop()
		n, err := r.Read(buffer)
		p.stall.Reset(stallAfter)
		if _, err := w.Write(buffer[:n]); err != nil {
			return // the process has ended
		}
		switch {
		case errors.Is(err, io.EOF):
			p.mu.Lock()
			p.atEnd = true
			p.mu.Unlock()
			return
		case err != nil:
			p.fail(err)
			return
		}
	}
}

// follow reads the reports of the process.
func (p *process) follow(r io.Reader, on func(kind byte, content []byte) error) error {
	for {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return nil //nolint:nilerr // it has ended, and wait knows whether it had finished
		}
		size := binary.BigEndian.Uint32(head[1:])
		if size > maxReport {
			return errReport
		}
		content := make([]byte, size)
		if _, err := io.ReadFull(r, content); err != nil {
			return nil //nolint:nilerr // as above
		}
		switch {
		case head[0] == reportDone:
			p.mu.Lock()
			p.finished = true
			p.mu.Unlock()
		case head[0] == reportError && len(content) >= 4:
			p.note(newReportedError(content))
		default:
			if err := on(head[0], content); err != nil {
				return err
			}
		}
	}
}

// wait waits until the process and all processes that it started have ended. It
// returns an error unless the process has read all of its input and reported
// success.
func (p *process) wait(ctx context.Context) error {
	err := p.cmd.Wait()
	p.busy.Wait()
	p.stall.Stop()
	p.release()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.err != nil:
		return p.err
	case err != nil:
		return fmt.Errorf("the unpacker's process: %w", err)
	case !p.finished || !p.atEnd:
		return errEarly
	}
	return nil
}

// reportedError is an error that a process has reported. Its text may be
// hostile.
type reportedError struct {
	text   string
	number unix.Errno
}

func newReportedError(content []byte) reportedError {
	number, text := binary.BigEndian.Uint32(content), content[4:]
	plain := strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return unicode.ReplacementChar
		}
		return r
	}, string(text[:min(len(text), maxError)]))
	return reportedError{plain, unix.Errno(number)}
}

func (e reportedError) Error() string { return e.text }

func (e reportedError) Unwrap() error {
	if e.number == 0 {
		return nil
	}
	return e.number
}
