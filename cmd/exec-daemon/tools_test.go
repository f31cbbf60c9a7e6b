package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"aloft/internal/control/execclient"
	"aloft/internal/conversation"
	"aloft/internal/need"
	"aloft/internal/tool"
)

// call makes a call that must return a result.
func call(t *testing.T, e *execclient.Calls, id, name string, args map[string]any) tool.Result {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	res, _, err := e.Call(within(t), conversation.ToolCall{ID: id, Name: name, Args: text}, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

// callRaw is like call, with the arguments as JSON.
func callRaw(t *testing.T, e *execclient.Calls, id, name, args string) tool.Result {
	t.Helper()
	res, _, err := e.Call(within(t), conversation.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)}, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

// TestOtherToolsDoNotWaitForShell checks that a long Shell command delays no
// other tool. Later Shell commands wait for it, because they share a session.
func TestOtherToolsDoNotWaitForShell(t *testing.T) {
	need.Command(t, "rg")
	d := start(t)
	e := d.client()
	if err := syscall.Mkfifo(filepath.Join(d.workspace, "gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	shells := []string{"read -r word < gate; cd /; words=1; echo $word > $OLDPWD/order"}
	for range 100 {
		shells = append(shells, fmt.Sprintf("echo $((words++)) $PWD >> %s", filepath.Join(d.workspace, "order")))
	}
	var group errgroup.Group
	begun := make(chan struct{})
	ask := func(i int, command string, heard func(execclient.Delta)) {
		group.Go(func() error {
			res, _, err := e.Call(within(t), bashCall(fmt.Sprint("s", i), command), heard)
			if err == nil && res.Error {
				err = errors.New(res.Text)
			}
			return err
		})
	}
	ask(0, "echo begun; "+shells[0], func(delta execclient.Delta) {
		if delta.Stdout != "" {
			close(begun)
		}
	})
	<-begun
	for i, command := range shells[1:] {
		ask(i+1, command, nil)
	}
	for i, c := range []struct {
		tool, args, want string
	}{
		{"Write", `{"path":"a.txt","contents":"one\n"}`, ""},
		{"Read", `{"path":"a.txt"}`, "one"},
		{"StrReplace", `{"path":"a.txt","old_string":"one","new_string":"two"}`, ""},
		{"Grep", `{"pattern":"two","path":"a.txt"}`, "two"},
		{"Glob", `{"glob_pattern":"*.txt"}`, "a.txt"},
		{"LS", `{"path":"."}`, "a.txt"},
		{"Delete", `{"path":"a.txt"}`, ""},
	} {
		res, _, err := e.Call(within(t), conversation.ToolCall{ID: fmt.Sprint("o", i), Name: c.tool, Args: []byte(c.args)}, nil)
		if err != nil || res.Error || !strings.Contains(res.Text, c.want) {
			t.Errorf("%s: %+v, %v", c.tool, res, err)
		}
	}
	if err := os.WriteFile(filepath.Join(d.workspace, "gate"), []byte("begun\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(d.workspace, "order"))
	if err != nil {
		t.Fatal(err)
	}
	want := "begun\n"
	for i := range 100 {
		want += fmt.Sprintf("%d /\n", i+1)
	}
	if string(got) != want {
		t.Errorf("the commands ran otherwise:\n%s", got)
	}
}

// TestBackgroundShells checks that a subagent's commands do not wait for other
// agents' commands, start in the workspace, and are invisible to other agents.
func TestBackgroundShells(t *testing.T) {
	d := start(t)
	e := d.client()
	if err := syscall.Mkfifo(filepath.Join(d.workspace, "gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(id, name, args string) tool.Result {
		t.Helper()
		res, _, err := e.Call(within(t), conversation.ToolCall{ID: id, Name: name, Args: json.RawMessage(args), Shell: "call_1_0"}, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return res
	}
	held := make(chan tool.Result, 1)
	go func() {
		res, _, err := e.Call(within(t), conversation.ToolCall{ID: "o1", Name: "Shell", Args: json.RawMessage(`{"command":"cd /; mine=1; read -r word < ` + d.workspace + `/gate; echo $word"}`)}, nil)
		if err != nil {
			res = tool.Failed("%v", err)
		}
		held <- res
	}()
	for i, c := range []struct{ name, args, want string }{
		{"Shell", `{"command":"theirs=2; echo [$mine] $PWD"}`, "[] " + d.workspace},
		{"Shell", `{"command":"echo [$theirs]; cat","is_background":true}`, "in the background"},
		{"Await", `{"timeout":0}`, " runs"},
		{"Shell", `{"command":"echo by $theirs > gate"}`, ""},
	} {
		if res := in(fmt.Sprintf("s%d", i), c.name, c.args); res.Error || !strings.Contains(res.Text, c.want) {
			t.Fatalf("%s: %+v", c.args, res)
		}
	}
	if res := <-held; res.Error || !strings.Contains(res.Text, "by 2") {
		t.Errorf("the agent's own: %+v", res)
	}
	if res := call(t, e, "o2", "Await", map[string]any{"timeout": 0}); strings.Contains(res.Text, "[process") {
		t.Errorf("the agent sees the subagent's commands: %+v", res)
	}
}

// TestBackgroundOverTheWire controls a background command before and after a
// restart of exec-daemon.
func TestBackgroundOverTheWire(t *testing.T) {
	d := start(t)
	e := d.client()
	res := call(t, e, "b1", "Shell", map[string]any{"command": "read -r x; echo got $x; read -r y; echo bye; exit 5", "is_background": true})
	var started struct {
		Success struct {
			PID        int
			DurationMS float64
			Background []struct{ Running bool }
		}
	}
	if err := json.Unmarshal(res.Output, &started); err != nil || started.Success.PID == 0 || len(started.Success.Background) != 1 {
		t.Fatalf("%s, %v", res.Output, err)
	}
	pid := started.Success.PID
	if res = call(t, e, "b2", "WriteShellStdin", map[string]any{"pid": pid, "input": "it\n"}); res.Error {
		t.Errorf("%+v", res)
	}
	if res = call(t, e, "b3", "Await", map[string]any{"pids": []int{pid}, "pattern": "^got"}); !strings.Contains(res.Text, "got it\n") {
		t.Errorf("%+v", res)
	}
	_ = d.signal(syscall.SIGKILL)
	d.start()
	// The command's input was closed when exec-daemon ended, but the exit code
	// is known.
	if res = call(t, e, "b4", "Await", map[string]any{"pids": []int{pid}}); res.Error || !strings.Contains(res.Text, "has ended with exit code 5") {
		t.Errorf("after the restart: %+v", res)
	}
}

// TestLongResultOverTheWire checks that a long result is truncated and can be
// read completely.
func TestLongResultOverTheWire(t *testing.T) {
	d := start(t)
	e := d.client()
	for i := range 700 {
		name := filepath.Join(d.workspace, fmt.Sprintf("%03d-%s", i, strings.Repeat("x", 100)))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	res := call(t, e, "l1", "LS", nil)
	var cut struct {
		Success struct {
			Tool, Path, Head, Tail string
			SizeBytes              float64
		}
	}
	if err := json.Unmarshal(res.Output, &cut); err != nil || cut.Success.Tool != "LS" || cut.Success.Path == "" {
		t.Fatalf("%.300s, %v", res.Output, err)
	}
	if len(res.Text) > 33_000 || !strings.Contains(res.Text, cut.Success.Path) {
		t.Errorf("%d bytes", len(res.Text))
	}
	if res = call(t, e, "l2", "Grep", map[string]any{"pattern": "^  350-", "path": cut.Success.Path, "output_mode": "count"}); !strings.Contains(res.Text, ":1") {
		t.Errorf("%+v", res)
	}
}

// TestFetchOverTheWire checks that a fetch from the daemon's own port is
// refused before it connects.
func TestFetchOverTheWire(t *testing.T) {
	d := start(t)
	res := call(t, d.client(), "f1", "Fetch", map[string]any{"url": "http://" + d.addr + "/"})
	if !res.Error || !strings.Contains(res.Text, "private network") {
		t.Errorf("%+v", res)
	}
}

// TestPDFOverTheWire checks that exec-daemon's own binary reads a PDF.
func TestPDFOverTheWire(t *testing.T) {
	d := start(t)
	if err := os.WriteFile(filepath.Join(d.workspace, "a.pdf"), []byte("%PDF-1.4\nnothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	res := call(t, d.client(), "p1", "Read", map[string]any{"path": "a.pdf"})
	if !res.Error || !strings.Contains(res.Text, "cannot read the PDF: not a PDF file") {
		t.Errorf("%+v", res)
	}
}

// TestSearchWithoutRipgrep checks that the search tools return the same results
// in a machine whose image lacks rg.
func TestSearchWithoutRipgrep(t *testing.T) {
	need.Command(t, "rg")
	found := map[string][]string{}
	for _, rg := range []string{"rg", "/no/rg"} {
		d := start(t, func(d *daemon) { d.more = []string{"--rg-path", rg} })
		for name, text := range map[string]string{
			".gitignore": "ignored\n.state\n.output\n", "ignored": "needle\n", "a.go": "package a // needle\n", "d/b.md": "two\nneedles\nfour\n", ".env": "needle\n", "c.bin": "needle\x00",
		} {
			name = filepath.Join(d.workspace, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(name, time.Time{}, time.Unix(1e9, 0)); err != nil { // Glob sorts by time
				t.Fatal(err)
			}
		}
		e := d.client()
		for i, c := range [][2]string{
			{"Grep", `{"pattern":"needle"}`}, {"Grep", `{"pattern":"needle","type":"go"}`}, {"Grep", `{"pattern":"two.needle","multiline":true}`},
			{"Grep", `{"pattern":"needle","-C":1,"glob":"*.md"}`}, {"Grep", `{"pattern":"needle","output_mode":"count"}`}, {"Glob", `{"glob_pattern":"**/*.{go,md}"}`},
			{"LS", `{"path":"d"}`}, {"SemSearch", `{"query":"needles four"}`},
		} {
			res := callRaw(t, e, fmt.Sprint("c", i), c[0], c[1])
			if res.Error || res.Text == "" {
				t.Errorf("with %s: %s %s: %q", rg, c[0], c[1], res.Text)
			}
			found[rg] = append(found[rg], strings.ReplaceAll(res.Text, d.workspace, "/workspace"))
		}
	}
	if diff := cmp.Diff(found["rg"], found["/no/rg"]); diff != "" {
		t.Error(diff)
	}
}
