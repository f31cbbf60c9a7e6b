package mcp

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aloft/internal/loopbacktest"
	"aloft/internal/mcp"
	"aloft/internal/need"
)

// TestEverything uses the public test server of MCP over both of its HTTP
// transports.
func TestEverything(t *testing.T) {
	node := need.Command(t, "node")
	script, err := filepath.Abs("../../../hack/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "the test server of MCP", script)
	for kind, path := range map[string]string{"streamableHttp": "/mcp", "sse": "/sse"} {
		t.Run(kind, func(t *testing.T) {
			at := loopbacktest.Free(t)
			_, port, err := net.SplitHostPort(at)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, script, kind)
			cmd.Env = append(os.Environ(), "PORT="+port)
			said, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { cancel(); _ = cmd.Wait() }() // it was killed
			until(t, said, "on port")
			server := remote("http://127.0.0.1:" + port + path)
			p := newServers(t).Party(1, "", nil)
			defer p.Close()
			l := p.List(t.Context(), server)
			if l.State != mcp.Ready || l.LeftOut != 0 || len(l.Tools) < 8 {
				t.Fatalf("%s %s, %d tools, %d left out: %s", l.State, l.Error, len(l.Tools), l.LeftOut, l.Why)
			}
			for _, c := range []struct{ tool, args, want string }{
				{"echo", `{"message": "hello"}`, "Echo: hello"},
				{"get-sum", `{"a": 2, "b": 40}`, "42"},
				{"get-structured-content", `{"location": "New York"}`, "temperature"},
				{"get-resource-links", `{"count": 2}`, "resource demo://resource/dynamic/text/2 of the server tickets"},
				{"trigger-long-running-operation", `{"duration": 1, "steps": 2}`, "Long running operation completed"},
			} {
				r, err := p.Call(t.Context(), server, c.tool, json.RawMessage(c.args))
				if err != nil || r.Tool().Error || !strings.Contains(r.Tool().Text, c.want) {
					t.Errorf("%s: %q, %v, want %q", c.tool, r.Tool().Text, err, c.want)
				}
			}
			all, err := p.Resources(t.Context(), server)
			if err != nil || len(all) == 0 {
				t.Fatalf("%d resources, %v", len(all), err)
			}
			if parts, err := p.Read(t.Context(), server, all[0].URI); err != nil || len(parts) == 0 {
				t.Errorf("%s: %d parts, %v", all[0].URI, len(parts), err)
			}
		})
	}
}

// until reads a program's messages until one contains the words, and discards
// the rest.
func until(t *testing.T, said interface{ Read([]byte) (int, error) }, words string) {
	t.Helper()
	var all strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(all.String(), words) {
		n, err := said.Read(buffer)
		all.Write(buffer[:n])
		if err != nil {
			t.Fatalf("the server says %q, %v", all.String(), err)
		}
	}
	go func() {
		for {
			if _, err := said.Read(buffer); err != nil {
				return
			}
		}
	}()
}
