package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	guest "aloft/internal/guest/mcp"
	"aloft/internal/mcp"
	"aloft/internal/redact"
)

// patience is the timeout for events that must happen.
const patience = 30 * time.Second

func manager(t *testing.T, change ...func(*guest.Config)) *guest.Manager {
	t.Helper()
	c := guest.Config{
		Workspace: t.TempDir(), Home: "/home/nobody", Backoff: time.Millisecond, StartWithin: patience, CallWithin: patience,
		Environ: func() []string {
			return []string{"PATH=" + os.Getenv("PATH"), "SECRET_TOKEN=hunter2hunter2", "SHARED=everyone"}
		},
	}
	for _, f := range change {
		f(&c)
	}
	m := guest.New(c)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// program returns a server that runs this test binary with the given behavior.
func program(t *testing.T, name, kind string) mcp.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return mcp.Server{Name: name, Type: mcp.Stdio, Command: self, Env: map[string]string{kindVariable: kind}, Source: mcp.Project}
}

func call(t *testing.T, m *guest.Manager, server, tool, args string) mcp.Result {
	t.Helper()
	r, err := m.Call(t.Context(), server, tool, json.RawMessage(args))
	if err != nil {
		t.Fatalf("%s:%s: %v", server, tool, err)
	}
	return r
}

func only(t *testing.T, m *guest.Manager) mcp.Listing {
	t.Helper()
	all := m.List(t.Context(), patience)
	if len(all) != 1 {
		t.Fatalf("%d servers", len(all))
	}
	return all[0]
}

func TestServer(t *testing.T) {
	m := manager(t)
	m.Use([]mcp.Server{program(t, "Test", "good"), {Name: "remote", Type: mcp.HTTP, URL: "https://mcp.example.com"}}, nil, "")
	l := only(t, m)
	if l.State != mcp.Ready || l.Server != "Test" || l.Instructions != "Call echo first." || len(l.Tools) != 8 || l.LeftOut != 0 {
		t.Fatalf("%+v", l)
	}
	if echo, ok := l.Find("echo"); !ok || echo.Description != "Says it again." || !strings.Contains(string(echo.Schema), `"text":{"type":"string"}`) {
		t.Errorf("%+v", echo)
	}
	if r := call(t, m, "test", "echo", `{"text":"hello"}`); r.IsError || len(r.Content) != 1 || r.Content[0].Text != "hello" {
		t.Errorf("%+v", r)
	}
	if r := call(t, m, "TEST", "fail", ``); !r.IsError || r.Content[0].Text != "it cannot" {
		t.Errorf("%+v", r)
	}
	r := call(t, m, "test", "show", `{}`)
	if len(r.Content) != 5 || string(r.Structured) != `{"n":1}` || string(r.Content[1].Data) != "png" || r.Content[2].MediaType != "audio/wav" ||
		r.Content[3].Text != "inside" || r.Content[3].URI != "test://a" || r.Content[4].Link == nil || r.Content[4].Link.Server != "Test" {
		t.Errorf("%+v", r)
	}
	resources, err := m.Resources(t.Context(), "")
	if err != nil || len(resources) != 2 || resources[1].URI != "test://notes" || resources[1].Server != "Test" {
		t.Errorf("%+v, %v", resources, err)
	}
	if c, err := m.Read(t.Context(), "test", "test://notes"); err != nil || len(c) != 1 || c[0].Text != "buy milk" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := m.Read(t.Context(), "test", "test://blob"); err != nil || len(c) != 1 || string(c[0].Data) != "\x00\x01\x02" {
		t.Errorf("%+v, %v", c, err)
	}
	for want, err := range map[string]error{
		`there is no MCP server "other"; available: Test`: failure(m.Call(t.Context(), "other", "echo", nil)),
		`has no tool "nope"; it has children`:             failure(m.Call(t.Context(), "test", "nope", nil)),
		`the MCP server Test answered`:                    failure(m.Read(t.Context(), "test", "test://nope")),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if d, err := m.Describe(t.Context(), "test"); err != nil || !strings.Contains(d.Describe(), `"name":"echo"`) {
		t.Errorf("%v", err)
	}
}

func failure[T any](_ T, err error) error { return err }

// TestVariables checks that a server gets the machine's variables and its own,
// but no variables of another server.
func TestVariables(t *testing.T) {
	m := manager(t, func(c *guest.Config) {
		if err := os.WriteFile(filepath.Join(c.Workspace, ".env"), []byte("# comment\nexport FROM_FILE=\"quoted value\"\nOWN=of the file\nbad line\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	a, b := program(t, "a", "good"), program(t, "b", "good")
	a.Env["OWN"], a.Env["TOKEN"], a.EnvFile = "a's ${env:SHARED}", "${env:SECRET_TOKEN}", ".env"
	a.Args = []string{"${workspaceFolder}", "${userHome}${/}x"}
	m.Use([]mcp.Server{a, b}, nil, "")
	text := func(server string) string {
		r := call(t, m, server, "variables", `{}`)
		return r.Content[0].Text + "\n" + r.Content[1].Text
	}
	ofA, ofB := text("a"), text("b")
	dir := strings.SplitN(ofA, "\n", 2)[0]
	for _, want := range []string{"\nOWN=a's everyone\n", "\nTOKEN=hunter2hunter2\n", "\nFROM_FILE=quoted value\n", "\nSHARED=everyone\n", "\n" + dir + " /home/nobody/x"} {
		if !strings.Contains(ofA, want) {
			t.Errorf("a has no %q:\n%s", want, ofA)
		}
	}
	if strings.Contains(ofB, "OWN=") || strings.Contains(ofB, "TOKEN=a") || strings.Contains(ofB, "FROM_FILE") || !strings.Contains(ofB, "\nSHARED=everyone\n") {
		t.Errorf("b has\n%s", ofB)
	}
}

// TestChildrenEnd checks that all processes that a server has started end with
// it, including those that have left its process group.
func TestChildrenEnd(t *testing.T) {
	m := manager(t)
	m.Use([]mcp.Server{program(t, "a", "good")}, nil, "")
	var pids []int
	if err := json.Unmarshal([]byte(call(t, m, "a", "children", `{}`).Content[0].Text), &pids); err != nil || len(pids) != 3 {
		t.Fatal(pids, err)
	}
	m.Use(nil, nil, "")
	for _, pid := range pids {
		if living(pid) {
			t.Errorf("%d lives on", pid)
		}
	}
	if all := m.List(t.Context(), patience); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// living reports whether the process exists and is not a zombie.
func living(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", json.Number(itoa(pid)).String(), "stat"))
	if err != nil {
		return false
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return f[0] != "Z" && f[0] != "X"
}

func itoa(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// TestServerDies checks that a server that dies is restarted, and that the call
// that was running then returns an error that says so.
func TestServerDies(t *testing.T) {
	m := manager(t)
	m.Use([]mcp.Server{program(t, "a", "good")}, nil, "")
	for range 3 {
		if _, err := m.Call(t.Context(), "a", "die", nil); err == nil || !strings.Contains(err.Error(), "may have taken effect") {
			t.Errorf("the call that killed it: %v", err)
		}
		eventually(t, "the server to answer again", func() bool {
			r, err := m.Call(t.Context(), "a", "echo", json.RawMessage(`{"text":"again"}`))
			return err == nil && r.Content[0].Text == "again"
		})
	}
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain for %s", patience, what)
		}
		<-tick.C
	}
}

func TestToolsChange(t *testing.T) {
	m := manager(t)
	m.Use([]mcp.Server{program(t, "a", "good")}, nil, "")
	before := mcp.Tell(m.List(t.Context(), patience))
	call(t, m, "a", "more", `{}`)
	eventually(t, "the new tool", func() bool {
		_, ok := only(t, m).Find("added")
		return ok
	})
	if mcp.Tell(m.List(t.Context(), patience)) == before {
		t.Error("what is told is what it was")
	}
	if r := call(t, m, "a", "added", `{}`); r.Content[0].Text != "new" {
		t.Errorf("%+v", r)
	}
}

// TestToolAllowlist checks that an allow list of tools is enforced in the
// machine, too.
func TestToolAllowlist(t *testing.T) {
	m := manager(t)
	s := program(t, "a", "good")
	s.Tools = []string{"ec*"}
	m.Use([]mcp.Server{s}, nil, "")
	if l := only(t, m); len(l.Tools) != 1 || l.LeftOut != 7 {
		t.Errorf("%+v", l)
	}
	if _, err := m.Call(t.Context(), "a", "variables", nil); err == nil || !strings.Contains(err.Error(), "has no tool") {
		t.Errorf("a tool that is not on the list: %v", err)
	}
}

func TestHostileServers(t *testing.T) {
	short := func(c *guest.Config) { c.StartWithin = time.Second }
	for kind, want := range map[string]string{
		"exits":   "it exited: exit status 3; it printed: no licence: the token is [REDACTED]",
		"huge":    "it sent a message of more than 16 MiB",
		"silent":  "it timed out",
		"garbage": "it exited",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			logs := t.TempDir()
			secrets := redact.New(map[string]string{"SECRET_TOKEN": "hunter2hunter2"})
			m := manager(t, func(c *guest.Config) {
				c.LogDir, c.Secrets, c.Backoff = logs, func() *redact.Redactor { return secrets }, time.Hour
				if kind == "silent" {
					short(c)
				}
			})
			m.Use([]mcp.Server{program(t, "a", kind)}, nil, "")
			l := only(t, m)
			if l.State != mcp.Failed || !strings.Contains(l.Error, want) || strings.Contains(l.Error, "hunter2") || len(l.Tools) != 0 {
				t.Errorf("%+v", l)
			}
			if data, err := os.ReadFile(filepath.Join(logs, "a.log")); err != nil || strings.Contains(string(data), "hunter2") || kind == "exits" && !strings.Contains(string(data), "no licence") {
				t.Errorf("its log is %q, %v", data, err)
			}
		})
	}
	t.Run("flood", func(t *testing.T) {
		t.Parallel()
		m := manager(t)
		m.Use([]mcp.Server{program(t, "a", "flood")}, nil, "")
		if r := call(t, m, "a", "echo", `{"text":"through"}`); r.Content[0].Text != "through" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("banner", func(t *testing.T) {
		t.Parallel()
		m := manager(t)
		m.Use([]mcp.Server{program(t, "a", "banner")}, nil, "")
		if l := only(t, m); l.State != mcp.Ready {
			t.Errorf("%+v", l)
		}
	})
	t.Run("many", func(t *testing.T) {
		t.Parallel()
		m := manager(t)
		m.Use([]mcp.Server{program(t, "a", "many")}, nil, "")
		if l := only(t, m); l.State != mcp.Ready || len(l.Tools) != mcp.MaxTools || l.LeftOut < 500 {
			t.Errorf("%d tools, %d left out: %s %s", len(l.Tools), l.LeftOut, l.State, l.Error)
		}
	})
}

func TestNotStartable(t *testing.T) {
	m := manager(t, func(c *guest.Config) { c.Backoff = time.Hour })
	for _, c := range []struct {
		s    mcp.Server
		want string
	}{
		{mcp.Server{Name: "none", Type: mcp.Stdio, Command: "no-such-program"}, `there is no program "no-such-program" in PATH`},
		{mcp.Server{Name: "variable", Type: mcp.Stdio, Command: "true", Args: []string{"${env:NOT_SET}"}}, "the variable NOT_SET is not set"},
		{mcp.Server{Name: "file", Type: mcp.Stdio, Command: "true", EnvFile: "missing"}, "envFile: open"},
		{mcp.Server{Name: "folder", Type: mcp.Stdio, Command: "/"}, "it could not be started"},
		{mcp.Server{Name: "silent", Type: mcp.Stdio, Command: "true"}, "it exited"},
	} {
		m.Use([]mcp.Server{c.s}, nil, "")
		if l := only(t, m); l.State != mcp.Failed || !strings.Contains(l.Error, c.want) {
			t.Errorf("%s: %+v", c.s.Name, l)
		}
	}
}

// TestAround checks that a server's command runs in the sandbox, and that a
// server does not start if its sandbox is unavailable.
func TestAround(t *testing.T) {
	m := manager(t, func(c *guest.Config) { c.Backoff = time.Hour })
	m.Use([]mcp.Server{program(t, "a", "good")}, func(argv ...string) ([]string, error) {
		return append([]string{"env", "AROUND=yes"}, argv...), nil
	}, "p1")
	if r := call(t, m, "a", "variables", `{}`); !slices.Contains(strings.Split(r.Content[0].Text, "\n"), "AROUND=yes") {
		t.Errorf("%s", r.Content[0].Text)
	}
	// If the policy changes, the server is restarted.
	m.Use([]mcp.Server{program(t, "a", "good")}, func(...string) ([]string, error) { return nil, errors.New("no sandbox here") }, "p2")
	if l := only(t, m); l.State != mcp.Failed || !strings.Contains(l.Error, "no sandbox here") {
		t.Errorf("%+v", l)
	}
}

// TestCallIsCancelled checks that a cancelled call returns at once, and that
// the server continues.
func TestCallIsCancelled(t *testing.T) {
	m := manager(t)
	m.Use([]mcp.Server{program(t, "a", "good")}, nil, "")
	only(t, m)
	why := errors.New("the user has cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := m.Call(ctx, "a", "wait", nil)
		ended <- err
	}()
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("it ended with %v", err)
	}
	if r := call(t, m, "a", "echo", `{"text":"x"}`); r.Content[0].Text != "x" {
		t.Errorf("%+v", r)
	}
	late := manager(t, func(c *guest.Config) { c.CallWithin = 50 * time.Millisecond })
	late.Use([]mcp.Server{program(t, "a", "good")}, nil, "")
	if _, err := late.Call(t.Context(), "a", "wait", nil); err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("a call that takes too long: %v", err)
	}
}
