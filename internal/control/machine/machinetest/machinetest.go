// Package machinetest is the test suite that every runtime of package machine
// must pass.
package machinetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aloft/internal/control/machine"
	"aloft/internal/control/machine/machinetest/standin"
	"aloft/internal/wire/mux"
)

// A Harness describes a runtime under test.
type Harness struct {
	// New returns a new Runtime on dir, as a server does when it starts. A
	// second call with the same dir simulates a restart of the server.
	New func(t *testing.T, dir string) machine.Runtime
	// Spec describes the machines to create, without the ID. The guest in these
	// machines serves [mux]; see Standin.
	Spec machine.Spec
	// Standin is set if the guest is the stand-in of package standin, which
	// counts its starts on its disk.
	Standin bool
	// Kill kills PID 1 of the machine, as kill -9 on the host does.
	Kill func(t *testing.T, r machine.Runtime, id string)
	// HalfMade creates in dir the files that a server leaves if it dies while
	// it creates the machine.
	HalfMade func(t *testing.T, dir, id string)
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Harness)
	}{
		{"dial", testDial},
		{"connection ends with the machine", testConnectionEnds},
		{"after a restart of the server", testReopen},
		{"not found", testNotFound},
		{"wait", testWait},
		{"wait is cancelled", testWaitCancelled},
		{"restart", testRestart},
		{"stop", testStop},
		{"freeze", testFreeze},
		{"freeze again and again", testFreezeStack},
		{"freeze what cannot be", testFreezeRefuses},
		{"destroy twice", testDestroyTwice},
		{"destroy what runs no more", testDestroyStopped},
		{"half made", testHalfMade},
		{"id is taken", testTaken},
		{"bad ids", testBadIDs},
		{"bad specs", testBadSpecs},
		{"ten at once", testTen},
		{"cancelled create", testCancelledCreate},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, h) })
	}
}

func (h Harness) spec(id string) machine.Spec {
	s := h.Spec
	s.ID = id
	return s
}

// create creates a machine that is destroyed when the test ends.
func (h Harness) create(t *testing.T, r machine.Runtime, id string) machine.Machine {
	t.Helper()
	m, err := r.Create(t.Context(), h.spec(id))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	t.Cleanup(func() {
		if err := m.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("destroy: %v", err)
		}
	})
	return m
}

// within returns a context with a timeout for operations that are normally
// quick.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Connect dials m and returns the control plane's end of the multiplexed
// connection.
func Connect(t testing.TB, m machine.Machine) *mux.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	conn, err := m.Dial(ctx)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	c, err := mux.Client(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// checkAnswers checks that a guest replies at the other end of a new
// connection.
func (h Harness) checkAnswers(t *testing.T, m machine.Machine) standin.Reply {
	t.Helper()
	c := Connect(t, m)
	if h.Standin {
		reply, err := standin.Ask(within(t), c, standin.Request{})
		if err != nil {
			t.Fatalf("ask the guest: %v", err)
		}
		return reply
	}
	s, err := c.Open(within(t), mux.Pod)
	if err != nil {
		t.Fatalf("open a stream: %v", err)
	}
	defer func() { _ = s.Close() }()
	select {
	case <-c.Done():
		t.Fatal("the connection has ended")
	default:
	}
	return standin.Reply{}
}

func testDial(t *testing.T, h Harness) {
	m := h.create(t, h.New(t, t.TempDir()), "m-1")
	if m.ID() != "m-1" {
		t.Errorf("ID is %q", m.ID())
	}
	if r := h.checkAnswers(t, m); h.Standin && r.Starts != 1 {
		t.Errorf("the guest has started %d times", r.Starts)
	}
	h.checkAnswers(t, m) // a second connection works too
}

func testConnectionEnds(t *testing.T, h Harness) {
	m := h.create(t, h.New(t, t.TempDir()), "m-1")
	c := Connect(t, m)
	if err := m.Destroy(within(t)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Done():
	case <-within(t).Done():
		t.Error("the connection outlives the machine")
	}
}

func testReopen(t *testing.T, h Harness) {
	dir := t.TempDir()
	before := h.New(t, dir)
	h.create(t, before, "m-1")
	h.create(t, before, "m-2")

	after := h.New(t, dir)
	ids, err := after.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	if want := []string{"m-1", "m-2"}; !slices.Equal(ids, want) {
		t.Errorf("List is %v, want %v", ids, want)
	}
	m, err := after.Open(t.Context(), "m-1")
	if err != nil {
		t.Fatal(err)
	}
	h.checkAnswers(t, m)
	if err := m.Destroy(within(t)); err != nil {
		t.Fatal(err)
	}
	if ids, _ := before.List(t.Context()); !slices.Equal(ids, []string{"m-2"}) {
		t.Errorf("List is %v, want m-2", ids)
	}
}

func testNotFound(t *testing.T, h Harness) {
	r := h.New(t, t.TempDir())
	ids, err := r.List(t.Context())
	if err != nil || len(ids) != 0 {
		t.Errorf("List of nothing is %v, %v", ids, err)
	}
	for _, id := range []string{"m-1", "", "../m-1", "M"} {
		if _, err := r.Open(t.Context(), id); !errors.Is(err, machine.ErrNotFound) {
			t.Errorf("Open(%q): %v, want ErrNotFound", id, err)
		}
	}
}

func testWait(t *testing.T, h Harness) {
	dir := t.TempDir()
	r := h.New(t, dir)
	m := h.create(t, r, "m-1")
	h.checkAnswers(t, m)
	other, err := h.New(t, dir).Open(t.Context(), "m-1")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	for _, m := range []machine.Machine{m, other} {
		go func() { done <- m.Wait(t.Context()) }()
	}
	h.Kill(t, r, "m-1")
	for range 2 {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-within(t).Done():
			t.Fatal("Wait does not see that the machine has stopped")
		}
	}
	if err := m.Wait(t.Context()); err != nil {
		t.Errorf("Wait once more: %v", err)
	}
	if _, err := m.Dial(within(t)); !errors.Is(err, machine.ErrStopped) {
		t.Errorf("Dial: %v, want ErrStopped", err)
	}
	if ids, _ := r.List(t.Context()); !slices.Equal(ids, []string{"m-1"}) {
		t.Errorf("a stopped machine is gone from List: %v", ids)
	}
}

func testWaitCancelled(t *testing.T, h Harness) {
	m := h.create(t, h.New(t, t.TempDir()), "m-1")
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Wait(ctx) }()
	cancel(cause)
	select {
	case err := <-done:
		if !errors.Is(err, cause) {
			t.Errorf("Wait: %v, want the cause", err)
		}
	case <-within(t).Done():
		t.Fatal("Wait outlasts its context")
	}
	h.checkAnswers(t, m)
}

func testRestart(t *testing.T, h Harness) {
	dir := t.TempDir()
	r := h.New(t, dir)
	m := h.create(t, r, "m-1")
	h.checkAnswers(t, m)
	if err := m.Restart(within(t)); err == nil {
		t.Error("Restart of a running machine is no error")
	}
	h.checkAnswers(t, m)
	for n := 2; n <= 3; n++ {
		h.Kill(t, r, "m-1")
		if err := m.Wait(within(t)); err != nil {
			t.Fatal(err)
		}
		again, err := h.New(t, dir).Open(t.Context(), "m-1")
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Restart(within(t)); err != nil {
			t.Fatal(err)
		}
		if reply := h.checkAnswers(t, m); h.Standin && reply.Starts != n {
			t.Errorf("the guest counts %d starts on its disk, want %d", reply.Starts, n)
		}
	}
	if err := m.Destroy(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := m.Restart(within(t)); err == nil {
		t.Error("Restart of what was destroyed is no error")
	}
}

func testDestroyTwice(t *testing.T, h Harness) {
	dir := t.TempDir()
	r := h.New(t, dir)
	m := h.create(t, r, "m-1")
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := m.Destroy(within(t)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := m.Destroy(within(t)); err != nil {
		t.Error(err)
	}
	if err := m.Wait(within(t)); err != nil {
		t.Errorf("Wait for what is gone: %v", err)
	}
	if _, err := r.Open(t.Context(), "m-1"); !errors.Is(err, machine.ErrNotFound) {
		t.Errorf("Open: %v, want ErrNotFound", err)
	}
	if ids, _ := r.List(t.Context()); len(ids) != 0 {
		t.Errorf("List is %v", ids)
	}
	h.checkAnswers(t, h.create(t, r, "m-1")) // the ID can be used again
}

func testDestroyStopped(t *testing.T, h Harness) {
	r := h.New(t, t.TempDir())
	m := h.create(t, r, "m-1")
	h.Kill(t, r, "m-1")
	if err := m.Destroy(within(t)); err != nil {
		t.Fatal(err)
	}
	if ids, _ := r.List(t.Context()); len(ids) != 0 {
		t.Errorf("List is %v", ids)
	}
}

func testHalfMade(t *testing.T, h Harness) {
	dir := t.TempDir()
	r := h.New(t, dir)
	h.HalfMade(t, dir, "m-1")
	if ids, _ := r.List(t.Context()); !slices.Equal(ids, []string{"m-1"}) {
		t.Fatalf("List is %v: what is half made must be found, or nobody removes it", ids)
	}
	m, err := r.Open(t.Context(), "m-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Dial(within(t)); !errors.Is(err, machine.ErrStopped) {
		t.Errorf("Dial: %v, want ErrStopped", err)
	}
	if err := m.Destroy(within(t)); err != nil {
		t.Fatal(err)
	}
	h.checkAnswers(t, h.create(t, r, "m-1"))
}

func testTaken(t *testing.T, h Harness) {
	r := h.New(t, t.TempDir())
	m := h.create(t, r, "m-1")
	if _, err := r.Create(t.Context(), h.spec("m-1")); err == nil {
		t.Error("Create with a taken ID is no error")
	}
	h.checkAnswers(t, m) // and the existing machine is unharmed
}

func testBadIDs(t *testing.T, h Harness) {
	r := h.New(t, t.TempDir())
	for _, id := range []string{"", ".", "..", "a/b", "../a", "a_b", "a b", "-a", "a\x00b", "ä", strings.Repeat("a", 64)} {
		if _, err := r.Create(t.Context(), h.spec(id)); err == nil {
			t.Errorf("Create(%q) is no error", id)
		}
	}
	if ids, _ := r.List(t.Context()); len(ids) != 0 {
		t.Errorf("List is %v", ids)
	}
}

func testBadSpecs(t *testing.T, h Harness) {
	r := h.New(t, t.TempDir())
	for name, change := range map[string]func(*machine.Spec){
		"image": func(s *machine.Spec) { s.Image = "no-such-kind" },
		"class": func(s *machine.Spec) { s.Class = "no-such-class" },
		"env":   func(s *machine.Spec) { s.Env = map[string]string{"A=B": "c"} },
	} {
		s := h.spec("m-1")
		change(&s)
		if _, err := r.Create(t.Context(), s); err == nil {
			t.Errorf("a bad %s is no error", name)
		}
		if ids, _ := r.List(t.Context()); len(ids) != 0 {
			t.Errorf("a bad %s leaves %v", name, ids)
		}
	}
}

func testTen(t *testing.T, h Harness) {
	r := h.New(t, t.TempDir())
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			ctx := context.WithoutCancel(t.Context())
			m, err := r.Create(ctx, h.spec(fmt.Sprintf("m-%d", i)))
			if err != nil {
				t.Error(err)
				return
			}
			conn, err := m.Dial(ctx)
			if err != nil {
				t.Error(err)
			} else {
				_ = conn.Close()
			}
			if err := m.Destroy(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if ids, _ := r.List(t.Context()); len(ids) != 0 {
		t.Errorf("List is %v", ids)
	}
}

func testCancelledCreate(t *testing.T, h Harness) {
	r := h.New(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Create(ctx, h.spec("m-1")); err == nil {
		t.Error("Create with a cancelled context is no error")
	}
	if ids, _ := r.List(t.Context()); len(ids) != 0 {
		t.Errorf("it leaves %v", ids)
	}
}
