package execclient

import (
	"encoding/binary"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"aloft/internal/mcp"
	"aloft/internal/wire/agentv1"
)

// maxGrowth is the number of bytes that this process may allocate to send, read
// and decode a reply: a few times the largest reply.
const maxGrowth = 192 << 20

// grew runs f and returns how many bytes it allocated.
func grew(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// answering returns a connection to a machine whose exec-daemon is h.
func answering(t *testing.T, h http.Handler) Conn {
	t.Helper()
	return testConn{dial: execDaemon(t, "/", h), lost: still}
}

// always replies to every request with the status, content type and body.
func always(status int, contentType string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})
}

// The client refuses a reply of a few MiB that would take hundreds of MiB in
// memory, before it decodes the reply, whatever the RPC.
func TestRepliesOfManyParts(t *testing.T) {
	entries := func(field protowire.Number, size int) []byte {
		return []byte(strings.Repeat(string(append(protowire.AppendTag(nil, field, protowire.BytesType), 0)), size/2))
	}
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"directory": func() error {
			_, err := NewFiles(answering(t, always(200, "application/proto", entries(1, maxFolderReply-2))), "").List(ctx, "/")
			return err
		},
		"terminals": func() error {
			_, err := NewTerminals(answering(t, always(200, "application/proto", entries(1, maxTerminalText))), "").List(ctx)
			return err
		},
		"artifacts": func() error {
			_, _, err := NewArtifacts(answering(t, always(200, "application/proto", entries(1, maxArtifactReply-2))), "").List(ctx)
			return err
		},
		"hooks": func() error {
			h := NewHooks(answering(t, always(200, "application/proto", entries(10, maxHookReply-2))), "")
			h.patience = 0 // the client does not ask exec-daemon again
			_, err := h.Run(ctx, HookCall{})
			return err
		},
		"rules": func() error {
			_, err := NewRules(answering(t, always(200, "application/proto", entries(1, maxRulesReply-2))), "").Read(ctx, nil)
			return err
		},
		"tools of MCP servers": func() error {
			text := `[{"tools":[` + strings.Repeat(`{},`, maxListings/3-20) + `{}]}]`
			reply, _ := proto.Marshal(&agentv1.UseServersResponse{Listings: []byte(text)})
			_, err := NewMCP(answering(t, always(200, "application/proto", reply)), "").Use(ctx, []mcp.Server{{Name: "a", Type: mcp.Stdio, Command: "a"}}, nil, 0)
			return err
		},
		"details of an error": func() error {
			text := `{"code":"internal","details":[` + strings.Repeat(`{},`, maxFolderReply/3-20) + `{}]}`
			_, err := NewFiles(answering(t, always(500, "application/json", []byte(text))), "").List(ctx, "/")
			return err
		},
		"details of a stream's error": func() error {
			text := `{"error":{"code":"internal","details":[` + strings.Repeat(`{},`, maxFolderReply/3-20) + `{}]}}`
			body := append(binary.BigEndian.AppendUint32([]byte{2}, uint32(len(text))), text...)
			_, _, _, err := NewFiles(answering(t, always(200, "application/connect+proto", body)), "").Read(ctx, "/a", false)
			return err
		},
		"header": func() error {
			_, err := NewFiles(answering(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/proto")
				w.Header().Set("X-Long", strings.Repeat("x", 2<<20))
			})), "").List(ctx, "/")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			if n := grew(func() { err = call() }); n > maxGrowth {
				t.Errorf("the reply took %d MiB", n>>20)
			}
			if err == nil {
				t.Error("the reply was accepted")
			}
		})
	}
}
