package pid1

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
)

// Backoff of restarts: the first is immediate, and each further one waits twice
// as long. After a service has run for a while its backoff is reset.
// exec-daemon's backoff stays short, because the whole agent waits for it and
// its start costs only some hundredths of a second.
const (
	firstBackoff   = 50 * time.Millisecond
	maxBackoff     = 5 * time.Second
	maxExecBackoff = 200 * time.Millisecond
	stableAfter    = 10 * time.Second
)

// strayLimit limits the time for killing what a dead service left behind.
const strayLimit = 5 * time.Second

// A service is a process that is restarted whenever it ends, until it is
// stopped. When it ends, everything that it started is killed too: nobody
// controls the shells of a dead exec-daemon.
type service struct {
	name    string
	mark    string // mark of its descendants; "" for exec-daemon
	reaper  *Reaper
	log     *slog.Logger
	command func() *exec.Cmd
	secret  string                               // redacted from its output
	most    time.Duration                        // longest backoff; 0 means maxBackoff
	again   func(status syscall.WaitStatus) bool // whether to restart it; nil means always
	printed *output                              // its output; nil if that is only logged

	halt     sync.Once
	stopping chan struct{} // closed by stop
	stopped  chan struct{} // closed when the service has ended for good

	mu       sync.Mutex
	child    *Child // nil while it is not running
	born     time.Time
	restarts int
	words    *lastWords
	last     *ending // nil before it has ended once
}

// ending is how a service last ended.
type ending struct {
	status      syscall.WaitStatus
	outOfMemory bool
	at          time.Time
}

// launch starts the service and supervises it.
func (s *service) launch() error {
	s.stopping, s.stopped = make(chan struct{}), make(chan struct{})
	if err := s.start(); err != nil {
		return err
	}
	go s.keep()
	return nil
}

func (s *service) start() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := s.command()
	cmd.Stdout, cmd.Stderr = write, write
	child, err := s.reaper.Start(cmd)
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	words := listen(read, s.log.With("service", s.name), s.secret, s.printed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child, s.words, s.born = child, words, time.Now()
	return nil
}

func (s *service) keep() {
	defer close(s.stopped)
	backoff := firstBackoff
	for {
		born, kills := time.Now(), oomKills()
		if child := s.running(); child != nil {
			select {
			case <-child.Done():
			case <-s.stopping:
				return
			}
			end := &ending{status: child.Status(), at: time.Now()}
			end.outOfMemory = end.status.Signaled() && end.status.Signal() == syscall.SIGKILL && oomKills() > kills
			s.log.Warn("service ended", "service", s.name, "exit", exitCode(end.status), "out_of_memory", end.outOfMemory)
			s.mu.Lock()
			s.child, s.last = nil, end
			s.mu.Unlock()
			s.bury()
			if s.again != nil && !s.again(end.status) {
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
		backoff = min(2*backoff, cmp.Or(s.most, maxBackoff))
		err := s.start()
		s.mu.Lock()
		s.restarts++
		s.mu.Unlock()
		if err != nil {
			s.log.Error("cannot restart service", "service", s.name, "err", err)
		}
	}
}

func (s *service) running() *Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// bury kills what the dead service left behind.
func (s *service) bury() {
	ctx, cancel := context.WithTimeout(context.Background(), strayLimit)
	defer cancel()
	if err := s.reaper.KillStraysOf(ctx, s.mark); err != nil {
		s.log.Error("cannot kill what a service left behind", "service", s.name, "err", err)
	}
}

// state returns whether the service is running, and how often it was restarted.
func (s *service) state() (running bool, restarts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child != nil, s.restarts
}

// stop stops the service: it sends SIGTERM, and SIGKILL if the service has not
// ended after grace.
func (s *service) stop(grace time.Duration) {
	s.halt.Do(func() { close(s.stopping) })
	<-s.stopped
	child := s.running()
	if child == nil {
		return
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.child == child {
			s.child, s.last = nil, &ending{status: child.Status(), at: time.Now()}
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

// mostKilled is how many times a service may be killed before it listens until
// that counts as a failure.
const mostKilled = 5

// listening waits until ready succeeds, the service fails, or ctx ends. The
// error includes the end of the service's output. A service that was killed has
// not failed: it is restarted as usual.
func (s *service) listening(ctx context.Context, ready func(context.Context) error) error {
	begun := time.Now()
	_, before := s.state()
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
		ended := last != nil && (child == nil || last.at.After(begun))
		if ended && (!last.status.Signaled() || restarts >= mostKilled) {
			return fmt.Errorf("%s ended with status %d: %s", s.name, exitCode(last.status), words.after(outputGrace))
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s does not listen: %w", s.name, context.Cause(ctx)), err)
		case <-wait.C:
		}
	}
}
