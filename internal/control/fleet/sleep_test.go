package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/machine"
)

// bed is a machine that keeps its processes while it sleeps. If fails is set, it cannot
// sleep so, and returns that error.
type bed struct {
	machine.Checkpointer
	fails   error
	stopped bool
	asleep  bool
}

func (b *bed) ID() string                               { return "m-1" }
func (b *bed) Running() bool                            { return !b.stopped && !b.asleep }
func (b *bed) Asleep() bool                             { return b.asleep }
func (b *bed) DiskBytes(context.Context) (int64, error) { return 0, nil }
func (b *bed) Stop(context.Context) error               { b.stopped = true; return nil }
func (b *bed) Checkpoint(_ context.Context, _ func(context.Context) error) error {
	b.asleep = b.fails == nil
	return b.fails
}

// TestSleep checks that sleeping machines keep their processes if possible, and
// that the reason is reported if they do not.
func TestSleep(t *testing.T) {
	full := errors.New("the disk is full")
	for _, c := range []struct {
		name      string
		s         Config
		m         bed
		code      string
		reason    string
		untouched bool // no memory was saved
	}{
		{"Alive", Config{}, bed{}, "", "", false},
		{"Asleep", Config{}, bed{asleep: true}, "", "", false},
		{"NoMemory", Config{}, bed{fails: fmt.Errorf("%w by runc", machine.ErrNoMemory)}, "no_memory", "by runc", true},
		{"NoRoom", Config{Room: func() error { return full }}, bed{}, "no_room", "the disk is full", true},
		{"FullMeanwhile", Config{}, bed{fails: fmt.Errorf("write: %w", syscall.ENOSPC)}, "no_room", "no space", true},
		{"DiskOnly", Config{DiskOnly: true}, bed{}, "disk_only", "machine.sleep", true},
		{"Failed", Config{}, bed{fails: errors.New("a socket")}, "failed", "a socket", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Fleet{Config: c.s}
			got, err := s.sleep(t.Context(), &c.m)
			if err != nil {
				t.Fatal(err)
			}
			if got.Alive != (c.code == "") || got.Code != c.code || !strings.Contains(got.Reason, c.reason) || c.m.Running() || c.m.asleep == c.untouched {
				t.Errorf("it sleeps as %+v, %+v", got, c.m)
			}
		})
	}
	// A server that shuts down does not change the machine.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &bed{fails: context.Canceled}
	if _, err := (&Fleet{}).sleep(ctx, m); err == nil || m.stopped {
		t.Errorf("at the server's end: %v", err)
	}
}

// TestWakingIsTold checks that the agent is told once how long the machine
// slept, even if a visitor has woken the machine before.
func TestWakingIsTold(t *testing.T) {
	ready := []agent.Body{&agent.Created{}, &agent.RunCreated{}, &agent.MachineMade{MachineID: "m-1"}, &agent.MachineReady{MachineID: "m-1", BootID: "b-1"}}
	slept, woken := &agent.MachineHibernated{MachineID: "m-1", Alive: true}, &agent.MachineWoken{MachineID: "m-1", BootID: "b-1", Alive: true}
	for _, c := range []struct {
		name   string
		bodies []agent.Body
		woken  bool
		told   string
	}{
		{"Awake", nil, false, ""},
		{"Asleep", []agent.Body{slept}, true, "slept for "},
		{"WokenTwiceByVisitors", []agent.Body{slept, woken, slept, woken}, false, "slept for 2s"}, // one second per sleep
		{"Told", []agent.Body{slept, woken, &agent.Notice{Code: agent.CodeSlept}}, false, ""},
		{"OnItsDisk", []agent.Body{slept, &agent.MachineWoken{MachineID: "m-1", BootID: "b-2"}}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bodies := wakingOf(fold(append(ready[:len(ready):len(ready)], c.bodies...)...))
			var woken bool
			var told string
			for _, b := range bodies {
				switch b := b.(type) {
				case *agent.MachineWoken:
					woken = b.Alive
				case *agent.Notice:
					told = b.Text
				}
			}
			if woken != c.woken || (told == "") != (c.told == "") || !strings.Contains(told, c.told) {
				t.Errorf("woken %v, told %q", woken, told)
			}
		})
	}
}
