package terminal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// desk is a Host and its listener.
type desk struct {
	*Host
	url string
	dir string
}

func newDesk(t *testing.T, cfg Config) *desk {
	t.Helper()
	dir := t.TempDir()
	if cfg.Dir == "" {
		cfg.Dir = dir
	}
	h := New(cfg)
	server := httptest.NewServer(h.Handler())
	t.Cleanup(func() {
		server.CloseClientConnections()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return &desk{h, server.URL, dir}
}

// person is a viewer's end of a connection.
type person struct {
	t    *testing.T
	ws   *websocket.Conn
	ctx  context.Context
	next int64 // offset of the next output
	seen bytes.Buffer
	errs bytes.Buffer
	gaps int
}

func (d *desk) connect(t *testing.T) *person {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ws, _, err := websocket.Dial(ctx, d.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	ws.SetReadLimit(1 << 20)
	return &person{t: t, ws: ws, ctx: ctx}
}

func (p *person) say(v any) {
	p.t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.ws.Write(p.ctx, websocket.MessageText, b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *person) typeIn(s string) {
	p.t.Helper()
	if err := p.ws.Write(p.ctx, websocket.MessageBinary, append([]byte{channelInput}, s...)); err != nil {
		p.t.Fatal(err)
	}
}

// event reads up to the next text message, and stores the output before it.
func (p *person) event() event {
	p.t.Helper()
	for {
		kind, b, err := p.ws.Read(p.ctx)
		if err != nil {
			p.t.Fatalf("%v; seen %.2000q", err, p.seen.String())
		}
		if kind == websocket.MessageBinary {
			p.keep(b)
			continue
		}
		var e event
		if err := json.Unmarshal(b, &e); err != nil {
			p.t.Fatal(err)
		}
		switch e.Type {
		case "gap":
			p.gaps++
			p.next = *e.Offset
			continue
		case "attached":
			if e.Offset != nil {
				p.next = *e.Offset
			}
		}
		return e
	}
}

func (p *person) keep(b []byte) {
	p.t.Helper()
	switch b[0] {
	case channelOutput:
		p.seen.Write(b[1:])
		p.next += int64(len(b) - 1)
	case channelError:
		p.errs.Write(b[1:])
	default:
		p.t.Errorf("channel %d", b[0])
	}
}

// until reads output until it contains the text what.
func (p *person) until(what string) {
	p.t.Helper()
	for !strings.Contains(p.seen.String(), what) {
		kind, b, err := p.ws.Read(p.ctx)
		if err != nil {
			p.t.Fatalf("%v; seen %.2000q, want %q", err, p.seen.String(), what)
		}
		if kind != websocket.MessageBinary {
			if !bytes.Contains(b, []byte(`"gap"`)) {
				p.t.Fatalf("%s; seen %.2000q, want %q", b, p.seen.String(), what)
			}
			continue
		}
		p.keep(b)
	}
}

func (p *person) want(kind string) event {
	p.t.Helper()
	e := p.event()
	if e.Type != kind {
		p.t.Fatalf("%+v, want %s; seen %.2000q", e, kind, p.seen.String())
	}
	return e
}

func TestManyWatchAndOneComesBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Config{})
	a := d.connect(t)
	a.say(request{Type: "spawn", ID: "p1", Args: []string{"bash", "--norc"}, Env: map[string]string{"PS1": "> "}, Columns: 100, Rows: 30})
	if e := a.want("attached"); e.ID != "p1" || e.PID == 0 || e.Columns != 100 || e.Rows != 30 || *e.Offset != 0 || !e.TTY {
		t.Errorf("%+v", e)
	}
	b := d.connect(t)
	b.say(request{Type: "attach", ID: "p1"})
	b.want("attached")
	a.typeIn("stty size; echo one-$((1+1))\n")
	a.until("30 100")
	b.until("one-2")
	a.until("one-2")
	// The viewer disconnects without closing the connection. The program continues, and its
	// output can be read later.
	_ = a.ws.CloseNow()
	b.typeIn("echo two-$((1+1)) 'äö€'\n")
	b.until("two-2 äö€")
	c := d.connect(t)
	from := a.next
	c.say(request{Type: "attach", ID: "p1", From: &from})
	if e := c.want("attached"); *e.Offset != from {
		t.Errorf("%d, want %d", *e.Offset, from)
	}
	c.until("two-2 äö€")
	if whole := a.seen.String() + c.seen.String(); !strings.HasPrefix(whole, b.seen.String()[:10]) || strings.Count(whole, "one-2") != 1 {
		t.Errorf("%q", whole)
	}
	// All viewers get the new size and the exit status.
	b.say(request{Type: "resize", Columns: 77, Rows: 20})
	b.typeIn("stty size\n")
	c.until("20 77")
	watcher := d.connect(t)
	watcher.say(request{Type: "attach", ID: "p1", ReadOnly: true})
	watcher.want("attached")
	watcher.typeIn("echo not-me\n")
	watcher.say(request{Type: "signal", Signal: "SIGKILL"})
	watcher.say(request{Type: "close"})
	b.typeIn("echo last; exit 7\n")
	for _, p := range []*person{b, c, watcher} {
		if e := p.want("exit"); *e.Code != 7 || e.Signal != "" {
			t.Errorf("%+v", e)
		}
		if _, _, err := p.ws.Read(p.ctx); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("%v", err)
		}
		if strings.Contains(p.seen.String(), "not-me") {
			t.Error("a reader has typed")
		}
	}
	// A viewer that connects after the exit gets the end of the output.
	e := d.connect(t)
	e.say(request{Type: "list"})
	if list := *e.want("ptys").PTYs; len(list) != 1 || list[0].ID != "p1" || *list[0].Code != 7 || list[0].Columns != 77 {
		t.Errorf("%+v", list)
	}
	e.say(request{Type: "attach", ID: "p1"})
	e.want("attached")
	if x := e.want("exit"); *x.Code != 7 || !strings.Contains(e.seen.String(), "one-2") {
		t.Errorf("%+v", x)
	}
}

func TestBytesAreSafe(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Config{})
	all := make([]byte, 256<<10)
	_, _ = rand.Read(all)
	all = bytes.ReplaceAll(all, []byte("END"), []byte("and")) // one in sixty random inputs contains END
	if err := os.WriteFile(filepath.Join(d.dir, "bytes"), all, 0o600); err != nil {
		t.Fatal(err)
	}
	a := d.connect(t)
	a.say(request{Type: "spawn", Args: []string{"sh", "-c", "stty raw -echo; cat bytes; echo END; head -c 256 > typed; exit 3"}})
	a.want("attached")
	a.until("END")
	if got := a.seen.Bytes(); !bytes.HasPrefix(got, all) {
		t.Error("what was printed is not what came")
	}
	a.typeIn(string(all[:256]))
	if e := a.want("exit"); *e.Code != 3 {
		t.Errorf("%+v", e)
	}
	if typed, err := os.ReadFile(filepath.Join(d.dir, "typed")); err != nil || !bytes.Equal(typed, all[:256]) {
		t.Errorf("typed %d bytes: %v", len(typed), err)
	}
}

// TestSlowViewer checks that a viewer that does not read delays neither the
// program nor other viewers, and later gets a gap in the output.
func TestSlowViewer(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Config{Scrollback: 64 << 10})
	fast := d.connect(t)
	fast.say(request{Type: "spawn", ID: "loud", Args: []string{"sh", "-c", "read go; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo OVER; read end"}})
	fast.want("attached")
	slow := d.connect(t)
	slow.say(request{Type: "attach", ID: "loud"})
	slow.want("attached")
	fast.typeIn("\n")
	fast.until("OVER")
	if _, end := fast.pty(d).Offsets(); end < 30_000_000 {
		t.Errorf("%d bytes", end)
	}
	fast.typeIn("\n")
	fast.want("exit")
	slow.want("exit")
	if slow.gaps == 0 || !strings.Contains(slow.seen.String(), "OVER") {
		t.Errorf("%d gaps", slow.gaps)
	}
}

func (p *person) pty(d *desk) *PTY {
	p.t.Helper()
	list := d.PTYs()
	if len(list) != 1 {
		p.t.Fatalf("%d PTYs", len(list))
	}
	return list[0]
}

func TestSignals(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Config{})
	a := d.connect(t)
	a.say(request{Type: "spawn", Args: []string{"sh", "-c", "trap 'echo caught' USR1; echo up; while :; do sleep 0.05; done"}})
	a.want("attached")
	a.until("up")
	a.say(request{Type: "signal", Signal: "SIGUSR1"})
	a.until("caught")
	a.say(request{Type: "close"})
	if e := a.want("exit"); e.Signal != "SIGHUP" || *e.Code != 129 {
		t.Errorf("%+v", e)
	}
	// Ctrl-C is sent as a key, not as a signal.
	b := d.connect(t)
	b.say(request{Type: "spawn", Args: []string{"sh", "-c", "trap 'exit 130' INT; echo up; while :; do sleep 0.05; done"}})
	b.want("attached")
	b.until("up")
	b.typeIn("\x03")
	if e := b.want("exit"); e.Signal != "SIGINT" && *e.Code != 130 {
		t.Errorf("%+v", e)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Config{})
	no := false
	for name, say := range map[string]any{
		"pty_not_found":   request{Type: "attach", ID: "none"},
		"tmux_missing":    request{Type: "terminal", Terminal: "t"},
		"begin with":      request{Type: "resize"},
		"no/such/program": request{Type: "spawn", Args: []string{"/no/such/program"}},
		"no/such/command": request{Type: "spawn", TTY: &no, Args: []string{"/no/such/command"}},
		"not a folder":    request{Type: "spawn", Dir: "/no/such/folder"},
		"variable":        request{Type: "spawn", Env: map[string]string{"A=B": ""}},
		"valid PTY id":    request{Type: "spawn", ID: "../x"},
		"unknown field":   map[string]any{"type": "spawn", "argv": []string{"sh"}},
		"not valid":       "text",
	} {
		p := d.connect(t)
		p.say(say)
		e := p.event()
		if e.Type == "attached" {
			e = p.event()
		}
		if e.Type != "error" || !strings.Contains(e.Error+" "+e.Message, name) {
			t.Errorf("%s: %+v", name, e)
		}
		if _, _, err := p.ws.Read(p.ctx); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Config{})
	no := false
	a := d.connect(t)
	a.say(request{Type: "spawn", TTY: &no, Args: []string{"sh", "-c", "cat; echo bad >&2; exit 42"}})
	a.want("attached")
	a.typeIn("in\x00put")
	a.say(request{Type: "eof"})
	if e := a.want("exit"); *e.Code != 42 || a.seen.String() != "in\x00put" || a.errs.String() != "bad\n" {
		t.Errorf("%+v, %q, %q", e, a.seen.String(), a.errs.String())
	}
	// A slow viewer gets the whole output, even after the command has ended.
	b := d.connect(t)
	b.say(request{Type: "spawn", TTY: &no, Args: []string{"sh", "-c", "head -c 20000000 /dev/zero"}})
	b.want("attached")
	if e := b.want("exit"); *e.Code != 0 || b.seen.Len() != 20_000_000 {
		t.Errorf("%+v, %d bytes", e, b.seen.Len())
	}
	// The command, and all processes that it has started, end when the
	// connection ends.
	c := d.connect(t)
	c.say(request{Type: "spawn", TTY: &no, Args: []string{"sh", "-c", "sleep 100 & echo $!; wait"}})
	c.want("attached")
	c.until("\n")
	pid := strings.TrimSpace(c.seen.String())
	_ = c.ws.CloseNow()
	waitForExit(t, pid)
	// A process that keeps the output open does not delay the exit message.
	e := d.connect(t)
	e.say(request{Type: "spawn", TTY: &no, Args: []string{"sh", "-c", "sleep 600 & echo $!"}})
	e.want("attached")
	x := e.want("exit")
	held, err := strconv.Atoi(strings.TrimSpace(e.seen.String()))
	if *x.Code != 0 || err != nil {
		t.Errorf("%+v, %q", x, e.seen.String())
	} else {
		_ = syscall.Kill(held, syscall.SIGKILL)
	}
}

// waitForExit waits until a process has ended.
func waitForExit(t *testing.T, pid string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-tick.C {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %s lives on", pid)
}

func TestClosedHost(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Config{})
	p, err := d.Spawn(Spec{Args: []string{"sleep", "100"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if e := p.Exit(); e.Code != 129 {
		t.Errorf("%+v", e)
	}
	if _, err := d.Spawn(Spec{}); err == nil {
		t.Error("a closed Host has started something")
	}
}

func TestSetenv(t *testing.T) {
	t.Setenv("TAKEN_OUT", "x")
	t.Setenv("NO_COLOR", "1")
	d := newDesk(t, Config{})
	d.Setenv(map[string]string{"PUT_IN": "yes"}, []string{"TAKEN_OUT"})
	var out bytes.Buffer
	exit, err := d.Run(t.Context(), Spec{Args: []string{"env"}, Env: map[string]string{"OWN": "1"}}, nil, &out, &out)
	if err != nil || exit.Code != 0 {
		t.Fatal(exit, err)
	}
	env := "\n" + out.String()
	for _, has := range []string{"\nPUT_IN=yes\n", "\nOWN=1\n", "\nTERM=xterm-256color\n"} {
		if !strings.Contains(env, has) {
			t.Errorf("no %q", has)
		}
	}
	if strings.Contains(env, "TAKEN_OUT") || strings.Contains(env, "NO_COLOR") {
		t.Error(env)
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(`{"type":"spawn","args":["sh"],"env":{"A":"b"},"tty":false}`))
	f.Add([]byte(`{"type":"attach","id":"x","from":-1}`))
	f.Add([]byte(`{"type":"resize","columns":70000}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := readRequest(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readRequest(again); err != nil {
			t.Errorf("%s: %v", again, err)
		}
		l := listener{
			typed: func([]byte) error { return nil }, eof: func() error { return nil }, close: func() {},
		}
		_, _ = l.heed(b), l.input(b)
	})
}

// TestWhatIsLeftBehindHoldsNothingUp checks that a PTY ends with its program,
// even if a process that the program has left behind ignores the hangup and
// keeps the terminal open.
func TestWhatIsLeftBehindHoldsNothingUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Config{})
	a := d.connect(t)
	a.say(request{Type: "spawn", Args: []string{"sh", "-c", "trap '' HUP; sleep 1000 & echo left $! behind"}})
	a.want("attached")
	a.until("behind")
	_, after, _ := strings.Cut(a.seen.String(), "left ")
	left, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(left, syscall.SIGKILL) })
	if e := a.want("exit"); *e.Code != 0 {
		t.Errorf("%+v", e)
	}
}
