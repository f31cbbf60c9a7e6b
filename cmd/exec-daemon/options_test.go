package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/coder/websocket"

	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

var update = flag.Bool("update", false, "write what is generated")

// TestReference checks that the page is generated from the table.
func TestReference(t *testing.T) {
	const page = "../../docs/reference/exec-daemon.md"
	if *update {
		if err := os.WriteFile(page, []byte(reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(page)
	if err != nil || string(old) != reference() {
		t.Errorf("%s is not what the table says (%v): run `make generate`", page, err)
	}
}

// TestOptionsAreTheDaemons checks, for each row, that the program accepts the
// flag, prints the default, and refuses invalid values.
func TestOptionsAreTheDaemons(t *testing.T) {
	help := program(t, "serve", "--help")
	for _, o := range options {
		at := regexp.MustCompile(`(?m)^  -` + o.name + `( .*)?\n\s+(.*)$`).FindStringSubmatch(help)
		if at == nil {
			t.Errorf("--%s: not in the help", o.name)
			continue
		}
		if o.refused != "" && !strings.Contains(at[2], "refused: ") {
			t.Errorf("--%s: the help promises what is not there: %q", o.name, at[2])
		}
		if takes := strings.TrimSpace(at[1]); takes != map[bool]string{false: string(o.kind)}[o.kind == kindBool] {
			t.Errorf("--%s: the help says that it takes %q, the table %q", o.name, takes, o.kind)
		}
		if (o.standard == "" || o.standard == "false") && strings.Contains(at[2], "(default") {
			t.Errorf("--%s: the help tells of a default, and the table of %q: %q", o.name, o.standard, at[2])
		}
		if o.standard != "" && o.standard != "false" && !strings.Contains(strings.ToLower(strings.ReplaceAll(at[2], `"`, "")), "(default "+o.standard+")") {
			t.Errorf("--%s: the help does not say %q: %q", o.name, o.standard, at[2])
		}
		wrong := map[kind]string{kindPort: "x", kindBool: "x", kindLevel: "x", kindJSON: "{", kindURL: "x"}[o.kind]
		if wrong == "" {
			continue
		}
		if said := program(t, "serve", "--auth-token", token, "--"+o.name+"="+wrong); !strings.Contains(said, o.name) || !strings.Contains(said, "usage") {
			t.Errorf("--%s=%s: %q", o.name, wrong, said)
		}
	}
}

// program runs exec-daemon until it exits, and returns its output.
func program(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), beMain+"=1")
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return string(out)
}

// TestBothPorts checks that a daemon with every option enabled answers on both
// ports, and only with its token.
func TestBothPorts(t *testing.T) {
	d := start(t, func(d *daemon) {
		for _, o := range options {
			if o.kind == kindBool && o.refused == "" {
				d.more = append(d.more, "--"+o.name, "true")
			}
		}
	})
	control := agentv1connect.NewControlServiceClient(http.DefaultClient, "http://"+d.addr)
	req := connect.NewRequest(&agentv1.PingRequest{})
	req.Header().Set("Authorization", "Bearer "+token)
	if res, err := control.Ping(t.Context(), req); err != nil || res.Msg.GetBootId() == "" {
		t.Errorf("%v, %v", res, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, wrong := range []string{"", "Bearer " + strings.Repeat("f", 64), "Basic " + token} {
		_, res, err := websocket.Dial(ctx, "ws://"+d.pty, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {wrong}}})
		if err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%.12q: %v, %v", wrong, res, err)
		}
	}
	ws, _, err := websocket.Dial(ctx, "ws://"+d.pty, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }() // already closed if the test succeeds
	if err := ws.Write(ctx, websocket.MessageText, []byte(`{"type":"spawn","args":["sh","-c","echo hi; env | grep -c EXEC_DAEMON"]}`)); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for {
		kind, b, err := ws.Read(ctx)
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusNormalClosure && !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		if kind == websocket.MessageBinary {
			said.Write(b[1:])
		}
	}
	if said.String() != "hi\r\n0\r\n" {
		t.Errorf("%q", said.String())
	}
}
