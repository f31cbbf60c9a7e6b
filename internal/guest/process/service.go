package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"aloft/internal/guest/usage"
)

// Backoff of restarts. The first restart is immediate; the delay doubles with each
// further restart. After a service has run for a while, its backoff is reset.
const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
	stableAfter  = 10 * time.Second
)

// outputGrace is how long the descendants of an ended service get to close its output.
const outputGrace = time.Second

// strayLimit limits the time for killing what a dead service left behind.
const strayLimit = 5 * time.Second

// A Service is a process that is restarted whenever it ends, until it is
// stopped. When it ends, all processes that it has started are killed too,
// because nothing controls the shells of a dead exec-daemon.
type Service struct {
	Name    string
	Mark    string // the value of [Variable] in its environment; "" if it has none
	Reaper  *Reaper
	Log     *slog.Logger
	Command func() *exec.Cmd
	Secret  string                               // redacted from its output
	Longest time.Duration                        // longest backoff; 0 means 5 seconds
	Again   func(status syscall.WaitStatus) bool // reports whether to restart the service; nil means always
	Printed *Output                              // receives the service's output; nil if the output is only logged

	halt     sync.Once
	stopping chan struct{} // closed by Stop
	stopped  chan struct{} // closed when the service has ended for good

	mu       sync.Mutex
	child    *Child // nil while it is not running
	born     time.Time
	restarts int
	words    *lastWords
	last     *Ending // nil before the service has ended once
}

// An Ending is how a service ended.
type Ending struct {
	Status      syscall.WaitStatus
	OutOfMemory bool
	At          time.Time
}

// Launch starts the service and supervises it.
func (s *Service) Launch() error {
	s.stopping, s.stopped = make(chan struct{}), make(chan struct{})
	if err := s.start(); err != nil {
		return err
	}
	go s.keep()
	return nil
}

func (s *Service) start() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := s.Command()
	cmd.Stdout, cmd.Stderr = write, write
	child, err := s.Reaper.Start(cmd)
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		return fmt.Errorf("start %s: %w", s.Name, err)
	}
	words := listen(read, s.Log.With("service", s.Name), s.Secret, s.Printed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child, s.words, s.born = child, words, time.Now()
	return nil
}

func (s *Service) keep() {
	defer close(s.stopped)
	backoff := firstBackoff
	for {
		born, kills := time.Now(), usage.OOMKills()
		if child := s.Running(); child != nil {
			select {
			case <-child.Done():
			case <-s.stopping:
				return
			}
			end := &Ending{Status: child.Status(), At: time.Now()}
			end.OutOfMemory = end.Status.Signaled() && end.Status.Signal() == syscall.SIGKILL && usage.OOMKills() > kills
			s.Log.Warn("service ended", "service", s.Name, "exit", ExitCode(end.Status), "out_of_memory", end.OutOfMemory)
			s.mu.Lock()
			s.child, s.last = nil, end
			s.mu.Unlock()
			s.Bury()
			if s.Again != nil && !s.Again(end.Status) {
				return
			}
			if time.Since(born) > stableAfter {
				backoff = firstBackoff
			}
		}
		select {
		case <-time.After(backoff):
		case <-s.stopping:
			return
		}
		backoff = min(2*backoff, cmp.Or(s.Longest, maxBackoff))
		err := s.start()
		s.mu.Lock()
		s.restarts++
		s.mu.Unlock()
		if err != nil {
			s.Log.Error("cannot restart service", "service", s.Name, "err", err)
		}
	}
}

// Running returns the process, or nil while it is not running.
func (s *Service) Running() *Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// Bury kills the leftover processes of the dead service.
func (s *Service) Bury() {
	ctx, cancel := context.WithTimeout(context.Background(), strayLimit)
	defer cancel()
	if err := s.Reaper.KillStraysOf(ctx, s.Mark); err != nil {
		s.Log.Error("cannot kill what a service left behind", "service", s.Name, "err", err)
	}
}

// A State is the state of a service.
type State struct {
	Child    *Child // nil while it is not running
	Born     time.Time
	Restarts int
	Last     *Ending // nil before the service has ended once
}

// State returns the state of the service.
func (s *Service) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{Child: s.child, Born: s.born, Restarts: s.restarts, Last: s.last}
}

// Stopped is closed when the service has been stopped or is not to be restarted.
func (s *Service) Stopped() <-chan struct{} { return s.stopped }

// Stop stops the service: it sends SIGTERM, and SIGKILL if the service has not
// ended after grace.
func (s *Service) Stop(grace time.Duration) {
	s.halt.Do(func() { close(s.stopping) })
	<-s.stopped
	child := s.Running()
	if child == nil {
		return
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.child == child {
			s.child, s.last = nil, &Ending{Status: child.Status(), At: time.Now()}
		}
	}()
	child.SignalGroup(syscall.SIGTERM)
	select {
	case <-child.Done():
		return
	case <-time.After(grace):
	}
	child.SignalGroup(syscall.SIGKILL)
	<-child.Done()
}

// mostKilled is how many times a service may be killed before it listens. After that it
// counts as failed.
const mostKilled = 5

// Listening waits until ready succeeds, the service fails, or ctx ends. The
// error includes the end of the service's output. A service that was killed has
// not failed: it is restarted as usual.
func (s *Service) Listening(ctx context.Context, ready func(context.Context) error) error {
	begun := time.Now()
	before := s.State().Restarts
	wait := time.NewTicker(5 * time.Millisecond)
	defer wait.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		s.mu.Lock()
		child, last, restarts, words := s.child, s.last, s.restarts-before, s.words
		s.mu.Unlock()
		ended := last != nil && (child == nil || last.At.After(begun))
		if ended && (!last.Status.Signaled() || restarts >= mostKilled) {
			return fmt.Errorf("%s ended with status %d: %s", s.Name, ExitCode(last.Status), words.after(outputGrace))
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s does not listen: %w", s.Name, context.Cause(ctx)), err)
		case <-wait.C:
		}
	}
}

// ExitCode converts a status to an exit code in the same way as a shell.
func ExitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
