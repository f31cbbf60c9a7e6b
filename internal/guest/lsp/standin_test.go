package lsp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aloft/internal/guest/ripgrep"
)

// TestMain lets the test binary act as a language server, which is correct or
// has one of many faults.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ripgrep.Argument {
		os.Exit(ripgrep.Main(os.Args[2:], os.Stdout, os.Stderr))
	}
	if manner, ok := os.LookupEnv("LSP_STANDIN"); ok {
		os.Exit(standIn(manner))
	}
	os.Exit(m.Run())
}

func standIn(manner string) int {
	switch manner {
	case "dead":
		fmt.Fprintln(os.Stderr, "panic: no luck today")
		return 3
	case "silent":
		_ = syscall.Pause()
	case "garbage":
		os.Stdout.WriteString("hello, I am no server\r\n\r\n")
		_ = syscall.Pause()
	case "header":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("A", 1<<16)); err != nil {
				return 1
			}
		}
	case "huge":
		os.Stdout.WriteString("Content-Length: 99999999999\r\n\r\n")
		_ = syscall.Pause()
	case "flood": // sends endless requests, and reads nothing
		question := frame([]byte(`{"jsonrpc":"2.0","id":1,"method":"workspace/configuration","params":{"items":[{}]}}`))
		for {
			if _, err := os.Stdout.Write(question); err != nil {
				return 1
			}
		}
	}
	in := bufio.NewReaderSize(os.Stdin, maxHeader)
	say := func(m message) {
		m.Version = "2.0"
		body, _ := json.Marshal(m)
		os.Stdout.Write(frame(body))
	}
	publish := func(doc string, words ...string) {
		var items []string
		for _, w := range words {
			items = append(items, fmt.Sprintf(`{"range":{"start":{"line":2,"character":4},"end":{"line":2,"character":5}},"severity":1,"code":7,"message":%q}`, w))
		}
		say(message{Method: "textDocument/publishDiagnostics", Params: fmt.Appendf(nil, `{"uri":%q,"diagnostics":[%s]}`, doc, strings.Join(items, ","))})
	}
	for {
		body, err := readFrame(in)
		if err != nil {
			return 1
		}
		var m message
		if json.Unmarshal(body, &m) != nil {
			return 2
		}
		switch m.Method {
		case "initialize":
			say(message{ID: m.ID, Result: json.RawMessage(`{"capabilities":{}}`)})
		case "shutdown":
			say(message{ID: m.ID, Result: json.RawMessage(`null`)})
		case "exit":
			return 0
		case "textDocument/didOpen", "textDocument/didChange":
			var p struct{ TextDocument struct{ URI string } }
			_ = json.Unmarshal(m.Params, &p)
			doc := p.TextDocument.URI
			switch manner {
			case "once": // dies at its first document
				dir, _ := os.LookupEnv("LSP_DIR")
				if os.Mkdir(filepath.Join(dir, "died"), 0o755) == nil {
					return 4
				}
				publish(doc, "after all")
			case "mute":
			case "greedy":
				hoard := bytes.Repeat([]byte{1}, 300<<20)
				_ = hoard[len(hoard)-1]
				_ = syscall.Pause()
			case "many":
				publish(doc, strings.Split(strings.Repeat("x,", 5000), ",")...)
			default: // reports unimportant progress, then works, then reports the end
				say(message{Method: "$/progress", Params: json.RawMessage(`{"token":1,"value":{"kind":"begin","title":"load"}}`)})
				publish(doc)
				publish("file:///etc/passwd", "not asked for")
				say(message{Method: "no/such/method", Params: json.RawMessage(`[]`), ID: json.RawMessage(`"q"`)})
				publish(doc, "found "+filepath.Base(doc))
				say(message{Method: "$/progress", Params: json.RawMessage(`{"token":1,"value":{"kind":"end"}}`)})
			}
		}
	}
}

// standing returns a pool whose gopls is the stand-in, with a tree of two
// files.
func standing(t *testing.T, manner string, cfg Config) *Pool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Dir = tree(t, "-- go.mod --\nmodule x\n-- a.go --\npackage x\n-- b.go --\npackage x\n")
	cfg.Env = append(searchPath(t, map[string]string{"gopls": self}), "LSP_STANDIN="+manner, "LSP_DIR="+t.TempDir())
	cfg.Only = []string{"gopls"}
	return pool(t, cfg)
}

// running returns the servers that a pool currently has.
func running(p *Pool) map[serverKey]*server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.servers)
}

func TestServerThatPublishes(t *testing.T) {
	p := standing(t, "good", Config{})
	r := lint(t, p, "a.go", "b.go")
	wants(t, p, r, "a.go:3:5: error: found a.go [gopls 7]", "b.go:3:5: error: found b.go [gopls 7]")
	if r.Total != 2 {
		t.Errorf("%d were found, want 2", r.Total)
	}
	first := running(p)[serverKey{"gopls", p.cfg.Dir}]
	lint(t, p, "a.go")
	if running(p)[serverKey{"gopls", p.cfg.Dir}] != first {
		t.Error("the server was not kept")
	}
	// A server that was killed is restarted.
	if err := syscall.Kill(first.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-first.exited
	wants(t, p, lint(t, p, "a.go"), "found a.go")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Lint(t.Context(), nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestServerThatDiesAtWork(t *testing.T) {
	p := standing(t, "once", Config{})
	wants(t, p, lint(t, p, "a.go"), "after all")
}

func TestServersThatAreBroken(t *testing.T) {
	for manner, want := range map[string]string{
		"dead":    "no luck today",
		"silent":  "not all results arrived in time",
		"garbage": "malformed header",
		"header":  "malformed header",
		"huge":    "message too long",
		"flood":   "does not read",
	} {
		t.Run(manner, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Patience: time.Minute}
			if manner == "silent" { // the server takes all of this time
				cfg.Patience = 3 * time.Second
			}
			p := standing(t, manner, cfg)
			r := lint(t, p, "a.go")
			notes := strings.Join(r.Notes, "\n")
			if !strings.Contains(notes, want) || len(r.Sources) != 0 {
				t.Errorf("%+v, want %q", r, want)
			}
			for range 3 {
				r = lint(t, p, "a.go")
			}
			if notes = strings.Join(r.Notes, "\n"); !strings.Contains(notes, "disabled for some minutes") {
				t.Errorf("after many failures: %q", notes)
			}
		})
	}
}

func TestServerThatNeverSpeaks(t *testing.T) {
	p := standing(t, "mute", Config{Patience: time.Second})
	r := lint(t, p, "a.go")
	if !strings.Contains(strings.Join(r.Notes, "\n"), "call again") {
		t.Errorf("%+v", r)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	errUser := errors.New("the user has enough")
	stop(errUser)
	if _, err := p.Lint(ctx, nil, nil); !errors.Is(err, errUser) {
		t.Errorf("a call that is over: %v", err)
	}
}

func TestServerThatSaysTooMuch(t *testing.T) {
	p := standing(t, "many", Config{})
	if r := lint(t, p, "a.go"); len(r.Diagnostics) > maxDiagnostics || r.Total > maxOfFile {
		t.Errorf("%d of %d", len(r.Diagnostics), r.Total)
	}
}

func TestServerThatTakesTooMuchMemory(t *testing.T) {
	p := standing(t, "greedy", Config{Memory: 100 << 20, Idle: 400 * time.Millisecond, Patience: 2 * time.Minute})
	r := lint(t, p, "a.go")
	if !strings.Contains(strings.Join(r.Notes, "\n"), "MB of memory; the limit is 100 MB") {
		t.Errorf("%+v", r)
	}
}

func TestServerThatIsIdle(t *testing.T) {
	p := standing(t, "good", Config{Idle: 200 * time.Millisecond})
	lint(t, p, "a.go")
	s := running(p)[serverKey{"gopls", p.cfg.Dir}]
	if s != nil { // the server may have ended already
		select {
		case <-s.exited:
		case <-time.After(2 * time.Minute):
			t.Error("it still runs")
		}
	}
	wants(t, p, lint(t, p, "b.go"), "found b.go")
}

func TestFewServersAtOnce(t *testing.T) {
	p := standing(t, "good", Config{})
	var paths []string
	for i := range maxServers + 2 {
		write(t, filepath.Join(p.cfg.Dir, fmt.Sprint("m", i), "go.mod"), "module y\n")
		write(t, filepath.Join(p.cfg.Dir, fmt.Sprint("m", i), "c.go"), "package y\n")
		paths = append(paths, fmt.Sprint("m", i, "/c.go"))
	}
	r := lint(t, p, paths...)
	if r.Total != len(paths) || len(running(p)) > maxServers {
		t.Errorf("%d found, %d servers", r.Total, len(running(p)))
	}
}
