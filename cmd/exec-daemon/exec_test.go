package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"aloft/internal/control/execclient"
	"aloft/internal/control/pod"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/guest/shell"
	"aloft/internal/need"
	"aloft/internal/tool"
)

// counted is a command that adds a line to the file "ran", prints "up", and
// waits for the file "go".
const counted = `echo x >> ran; echo up; until [ -e go ]; do sleep 0.02; done; echo over`

// letGo lets the counted commands exit.
func (d *daemon) letGo() {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.workspace, "go"), nil, 0o600); err != nil {
		d.t.Error(err)
	}
}

func TestCallOutlivesItsStream(t *testing.T) {
	d := start(t)
	e := d.client()
	var once sync.Once
	var heard strings.Builder
	last := uint64(0)
	res, took, err := e.Call(within(t), bashCall("c1", counted), func(delta execclient.Delta) {
		if delta.Seq <= last {
			t.Errorf("delta %d after %d", delta.Seq, last)
		}
		last = delta.Seq
		heard.WriteString(delta.Stdout)
		once.Do(func() { d.cut(); d.letGo() })
	})
	if err != nil || res.Error || took <= 0 || !strings.Contains(string(res.Output), `"exitCode":0`) {
		t.Fatalf("%+v, %v, %v", res, took, err)
	}
	if heard.String() != "up\nover\n" || d.lines("ran") != 1 {
		t.Errorf("heard %q, ran %d times", heard.String(), d.lines("ran"))
	}
}

// TestCallIsTakenUpByAnotherClient repeats a dead server's call with another
// client.
func TestCallIsTakenUpByAnotherClient(t *testing.T) {
	d := start(t)
	first := d.client()
	up := make(chan struct{})
	go func() {
		_, _, _ = first.Call(context.Background(), bashCall("c1", counted), func(execclient.Delta) { close(up) })
	}()
	<-up
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	var heard strings.Builder
	res, _, err := d.client().Call(within(t), bashCall("c1", counted), func(delta execclient.Delta) {
		heard.WriteString(delta.Stdout)
		if heard.String() == "up\n" {
			d.letGo()
		}
	})
	if err != nil || res.Error || heard.String() != "up\nover\n" || d.lines("ran") != 1 {
		t.Errorf("%+v, %v; heard %q, ran %d times", res, err, heard.String(), d.lines("ran"))
	}
}

func TestKill(t *testing.T) {
	d := start(t)
	e := d.client()
	ctx := within(t)
	if res, _, err := e.Call(ctx, bashCall("kept", "echo y >> kept; echo done"), nil); err != nil || res.Error {
		t.Fatalf("%+v, %v", res, err)
	}
	boot, err := e.BootID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	res, _, err := e.Call(ctx, bashCall("cut", counted), func(execclient.Delta) {
		once.Do(func() {
			_ = d.signal(syscall.SIGKILL)
			d.start()
		})
	})
	d.letGo()
	if err != nil || !res.Error || !strings.Contains(res.Text, "it may or may not have taken effect") {
		t.Errorf("the call that was cut: %+v, %v", res, err)
	}
	if again, _, err := e.Call(ctx, bashCall("cut", counted), nil); err != nil || again.Text != res.Text {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	if res, _, err := e.Call(ctx, bashCall("kept", "echo y >> kept"), nil); err != nil || res.Error || !strings.Contains(res.Text, "done") {
		t.Errorf("the call that was done: %+v, %v", res, err)
	}
	if res, _, err := e.Call(ctx, bashCall("new", "echo fine"), nil); err != nil || res.Error || !strings.Contains(res.Text, "fine") {
		t.Errorf("a new call: %+v, %v", res, err)
	}
	if after, err := e.BootID(ctx); err != nil || after != boot {
		t.Errorf("the boot id was %q and is %q, %v", boot, after, err)
	}
	if d.lines("ran") != 1 || d.lines("kept") != 1 {
		t.Errorf("ran %d and %d times", d.lines("ran"), d.lines("kept"))
	}
}

func TestAcknowledgedIsNeverRunAgain(t *testing.T) {
	d := start(t)
	e := d.client()
	ctx := within(t)
	if res, _, err := e.Call(ctx, bashCall("c1", "echo x >> ran"), nil); err != nil || res.Error {
		t.Fatalf("%+v, %v", res, err)
	}
	for range 2 {
		for _, id := range []string{"c1", "c1", "never-sent"} {
			if err := e.Ack(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"c1", "never-sent"} {
			if res, _, err := e.Call(ctx, bashCall(id, "echo x >> ran"), nil); err != nil || !res.Error || !strings.Contains(res.Text, "acknowledged") {
				t.Errorf("%s: %+v, %v", id, res, err)
			}
		}
		_ = d.signal(syscall.SIGKILL)
		d.start()
	}
	if n := d.lines("ran"); n != 1 {
		t.Errorf("ran %d times", n)
	}
	kept, err := os.ReadDir(filepath.Join(d.state, "results"))
	if err != nil || len(kept) != 0 {
		t.Errorf("results are kept: %v, %v", kept, err)
	}
}

// TestWhatAnotherClientLeft checks that the next client learns which calls a
// dead client has left unacknowledged. Each of them occupies one of the
// daemon's slots.
func TestWhatAnotherClientLeft(t *testing.T) {
	d := start(t)
	ctx := within(t)
	first := d.client()
	if res, _, err := first.Call(ctx, bashCall("done", "echo x >> ran"), nil); err != nil || res.Error {
		t.Fatalf("%+v, %v", res, err)
	}
	up := make(chan struct{})
	go func() {
		_, _, _ = first.Call(context.Background(), bashCall("runs", counted), func(execclient.Delta) { close(up) })
	}()
	<-up
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := d.client()
	known, err := second.Known(ctx)
	if err != nil || !slices.Equal(known, []string{"done", "runs"}) {
		t.Fatalf("it knows %q, %v", known, err)
	}
	for _, id := range known {
		if err := second.Drop(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if known, err := d.client().Known(ctx); err != nil || len(known) != 0 {
		t.Errorf("after that it knows %q, %v", known, err)
	}
	// The running call was aborted, so it does not block the shell.
	if res, _, err := second.Call(ctx, bashCall("next", "echo fine"), nil); err != nil || res.Error {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestAttachNeverStarts(t *testing.T) {
	d := start(t)
	e := d.client()
	ctx := within(t)
	if _, _, started, err := e.Attach(ctx, "c1", nil); err != nil || started {
		t.Errorf("an unknown call: started %v, %v", started, err)
	}
	if res, _, err := e.Call(ctx, bashCall("c1", "echo x >> ran; echo over"), nil); err != nil || res.Error {
		t.Fatalf("%+v, %v", res, err)
	}
	ended, end := context.WithCancelCause(ctx)
	end(errors.New("the user pressed stop"))
	if res, _, started, err := e.Attach(ended, "c1", nil); err != nil || !started || !strings.Contains(res.Text, "over") {
		t.Errorf("a call that is done: %+v, started %v, %v", res, started, err)
	}
	up := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	first := d.client()
	running.Go(func() {
		_, _, _ = first.Call(ctx, bashCall("c2", "echo up; sleep 600"), func(execclient.Delta) { close(up) })
	})
	<-up
	if res, _, started, err := e.Attach(ended, "c2", nil); err != nil || !started || !res.Error || !strings.Contains(res.Text, "pressed stop") {
		t.Errorf("a call that runs: %+v, started %v, %v", res, started, err)
	}
	if n := d.lines("ran"); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

func TestHundredCallsAtOnce(t *testing.T) {
	d := start(t)
	e := d.client()
	ctx := within(t)
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			name, args := "Shell", `{"command":"echo x >> ran"}`
			if i%2 == 1 {
				name, args = "Write", fmt.Sprintf(`{"path":"file%d","contents":"x\n"}`, i)
			}
			id := fmt.Sprint("c", i)
			res, _, err := e.Call(ctx, conversation.ToolCall{ID: id, Name: name, Args: []byte(args)}, nil)
			if err != nil || res.Error {
				t.Errorf("%s: %+v, %v", id, res, err)
			}
			if err := e.Ack(ctx, id); err != nil {
				t.Errorf("%s: ack: %v", id, err)
			}
			if i%20 == 0 {
				d.cut()
			}
		})
	}
	calls.Wait()
	if n := d.lines("ran"); n != 50 {
		t.Errorf("%d commands ran, want 50", n)
	}
}

func TestAbort(t *testing.T) {
	d := start(t)
	e := d.client()
	errStop := errors.New("the user pressed stop")
	ctx, cancel := context.WithCancelCause(within(t))
	res, _, err := e.Call(ctx, bashCall("c1", "echo up; sleep 600"), func(execclient.Delta) { cancel(errStop) })
	if err != nil || !res.Error || !strings.Contains(res.Text, "pressed stop") {
		t.Errorf("%+v, %v", res, err)
	}
	// A call whose context has ended is not started.
	if _, _, err := e.Call(ctx, bashCall("late", "echo x >> ran"), nil); !errors.Is(err, errStop) {
		t.Errorf("%v, want the cause", err)
	}
	if err := e.Ack(within(t), "c1"); err != nil || d.lines("ran") != 0 {
		t.Errorf("%v; ran %d times", err, d.lines("ran"))
	}
	// While the machine is unreachable, the error is the context's cause.
	if err := d.signal(syscall.SIGKILL); err == nil {
		t.Error("killed, and it ended well")
	}
	ctx, stop := context.WithCancelCause(within(t))
	defer stop(nil)
	d.mu.Lock()
	d.away = func() { stop(errStop) }
	d.mu.Unlock()
	if _, _, err := e.Call(ctx, bashCall("c2", "true"), nil); !errors.Is(err, errStop) {
		t.Errorf("%v, want the cause", err)
	}
}

func TestSlowListener(t *testing.T) {
	d := start(t)
	e := d.client()
	ctx := within(t)
	listening, release := make(chan struct{}), make(chan struct{})
	var slow sync.WaitGroup
	slow.Go(func() {
		var once sync.Once
		last := uint64(0)
		// The output consists of many deltas that no client reads.
		loud := bashCall("loud", `for i in {1..3000}; do printf '%01000d\n' $i; done; touch loud-is-over`)
		res, _, err := e.Call(ctx, loud, func(delta execclient.Delta) {
			if delta.Seq <= last {
				t.Errorf("delta %d after %d", delta.Seq, last)
			}
			last = delta.Seq
			once.Do(func() {
				close(listening)
				<-release
			})
		})
		if err != nil || res.Error {
			t.Errorf("%+v, %v", res, err)
		}
	})
	<-listening
	res, _, err := e.Call(ctx, bashCall("other", "[ -e loud-is-over ] && echo so"), nil)
	if err != nil || res.Error || !strings.Contains(res.Text, "so") {
		t.Errorf("%+v, %v", res, err)
	}
	close(release)
	slow.Wait()
}

func TestWrongToken(t *testing.T) {
	d := start(t)
	e := execclient.NewCalls(d.dial, strings.Repeat("f", 64))
	defer e.Close()
	_, _, err := e.Call(within(t), bashCall("c1", "echo x >> ran"), nil)
	if !fault.Is(err, fault.KindDenied) || strings.Contains(err.Error(), "ffff") {
		t.Errorf("%v, want denied", err)
	}
	if d.lines("ran") != 0 {
		t.Error("it ran")
	}
}

func TestLost(t *testing.T) {
	d := start(t)
	e := d.client()
	_, _, err := e.Call(within(t), bashCall("c1", "echo up; sleep 600"), func(execclient.Delta) {
		d.mu.Lock()
		d.lost = true
		d.mu.Unlock()
		d.cut()
	})
	if !errors.Is(err, pod.ErrLost) {
		t.Errorf("a call in flight: %v", err)
	}
	if _, _, err := e.Call(within(t), bashCall("c2", "true"), nil); !errors.Is(err, pod.ErrLost) {
		t.Errorf("a new call: %v", err)
	}
	if err := e.Ack(within(t), "c1"); !errors.Is(err, pod.ErrLost) {
		t.Errorf("an ack: %v", err)
	}
	if _, err := e.BootID(within(t)); !errors.Is(err, pod.ErrLost) {
		t.Errorf("the boot id: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := e.Call(within(t), bashCall("c3", "true"), nil); !fault.Is(err, fault.KindUnavailable) {
		t.Errorf("after Close: %v", err)
	}
}

// TestCommandsDoNotSeeTheToken checks that no command can read the token,
// neither from its own environment nor from the daemon's.
func TestCommandsDoNotSeeTheToken(t *testing.T) {
	need.Root(t) // to become another user
	const agent = 1000
	d := start(t, func(d *daemon) {
		// The test binary is in a folder that other users cannot read.
		d.program = filepath.Join(d.workspace, "exec-daemon")
		b, err := os.ReadFile(os.Args[0])
		if err == nil {
			err = errors.Join(os.WriteFile(d.program, b, 0o755), os.Chown(d.workspace, agent, agent))
		}
		if err != nil {
			t.Fatal(err)
		}
		d.user = &syscall.Credential{Uid: agent, Gid: agent}
	})
	res, _, err := d.client().Call(within(t), bashCall("c1", "id -u; env; cat /proc/self/environ; cat /proc/$PPID/environ || echo denied"), nil)
	if err != nil || res.Error || !strings.Contains(res.Text, "1000") || !strings.Contains(res.Text, "denied") {
		t.Errorf("%+v, %v", res, err)
	}
	if strings.Contains(res.Text, token) || strings.Contains(res.Text, envPrefix) {
		t.Error("a command sees the token")
	}
}

func TestStopsAtATerm(t *testing.T) {
	d := start(t)
	e := d.client()
	var once sync.Once
	res, _, err := e.Call(within(t), bashCall("c1", "echo up; sleep 600"), func(execclient.Delta) { // SIGTERM ends the sleep early
		once.Do(func() {
			if err := d.signal(syscall.SIGTERM); err != nil {
				t.Errorf("it ended with %v", err)
			}
			d.start()
		})
	})
	// The daemon has stopped the command regularly, so the result is known.
	if err != nil || !res.Error || !strings.Contains(res.Text, "stopping") {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestEveryGuestToolIsThere(t *testing.T) {
	have := make(map[string]bool)
	for _, t := range tools(config{RecordScreen: true, GenerateImage: true}, newShells(shell.Config{}, nil), skills{}) {
		have[t.Name] = true
	}
	for _, spec := range tool.Catalogue() {
		if spec.Home == tool.Guest && !have[spec.Name] {
			t.Errorf("%s is in the catalogue, and no tool of this daemon", spec.Name)
		}
		delete(have, spec.Name)
	}
	if len(tool.Catalogue()) > 0 && len(have) > 0 {
		t.Errorf("tools that are not in the catalogue: %v", have)
	}
}

// TestToolsThatKeepSomething calls the stateful tools through the daemon, and
// checks that none of them fails when the daemon stops.
func TestToolsThatKeepSomething(t *testing.T) {
	need.Command(t, "rg")
	need.Command(t, "git")
	d := start(t)
	e := d.client()
	for name, text := range map[string]string{"bad.sh": "fi\n", "a.go": "package a\n\n// Retry asks again.\nfunc Retry() {}\n"} {
		if err := os.WriteFile(filepath.Join(d.workspace, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ tool, args, want string }{
		{"SemSearch", `{"query": "where do we ask again?"}`, "a.go:1-4"},
		{"ReadLints", `{"paths": ["bad.sh"]}`, "bad.sh:1:1: error"},
	} {
		call := conversation.ToolCall{ID: c.tool, Name: c.tool, Args: []byte(c.args)}
		res, _, err := e.Call(within(t), call, nil)
		if err != nil || res.Error || !strings.Contains(res.Text, c.want) {
			t.Errorf("%s: %+v, %v", c.tool, res, err)
		}
	}
}
