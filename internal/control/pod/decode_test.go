package pod

import (
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"aloft/internal/mcp"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/mux"
)

// maxGrowth is how many bytes this process may allocate to send, read and decode
// a reply: a few times the largest reply.
const maxGrowth = 192 << 20

// grew runs f and returns how many bytes it allocated.
func grew(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// against returns a connection to a machine whose exec-daemon is h.
func against(t *testing.T, h http.Handler) *Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	there, err := mux.Server(theirs)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, Protocols: new(http.Protocols)} //nolint:gosec // only used in tests
	server.Protocols.SetUnencryptedHTTP2(true)
	streams := mux.NewListener()
	go func() { _ = server.Serve(streams) }()
	go func() {
		_ = there.Serve(func(_ string, s net.Conn) { streams.Hand(s) })
	}()
	c, err := newConn(ours, nil, optionsOf(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = server.Close()
		_ = streams.Close()
	})
	return c
}

// always answers every request with the status, content type and body.
func always(status int, contentType string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})
}

// A reply of a few MiB that would take hundreds of MiB in memory is refused
// before it is decoded, whatever the RPC.
func TestRepliesOfManyParts(t *testing.T) {
	entries := func(field protowire.Number, size int) []byte {
		return []byte(strings.Repeat(string(append(protowire.AppendTag(nil, field, protowire.BytesType), 0)), size/2))
	}
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"directory": func() error {
			_, err := against(t, always(200, "application/proto", entries(1, maxFolderReply-2))).Files("").List(ctx, "/")
			return err
		},
		"terminals": func() error {
			_, err := against(t, always(200, "application/proto", entries(1, maxTerminalText))).Terminals("").List(ctx)
			return err
		},
		"artifacts": func() error {
			_, _, err := against(t, always(200, "application/proto", entries(1, maxArtifactReply-2))).Artifacts("").List(ctx)
			return err
		},
		"hooks": func() error {
			h := against(t, always(200, "application/proto", entries(10, maxHookReply-2))).Hooks("")
			h.patience = 0 // exec-daemon is not asked again
			_, err := h.Run(ctx, HookCall{})
			return err
		},
		"rules": func() error {
			_, err := against(t, always(200, "application/proto", entries(1, maxRulesReply-2))).Rules("").Read(ctx, nil)
			return err
		},
		"tools of MCP servers": func() error {
			text := `[{"tools":[` + strings.Repeat(`{},`, maxListings/3-20) + `{}]}]`
			reply, _ := proto.Marshal(&agentv1.UseServersResponse{Listings: []byte(text)})
			_, err := against(t, always(200, "application/proto", reply)).MCP("").Use(ctx, []mcp.Server{{Name: "a", Type: mcp.Stdio, Command: "a"}}, nil, 0)
			return err
		},
		"details of an error": func() error {
			text := `{"code":"internal","details":[` + strings.Repeat(`{},`, maxFolderReply/3-20) + `{}]}`
			_, err := against(t, always(500, "application/json", []byte(text))).Files("").List(ctx, "/")
			return err
		},
		"details of a stream's error": func() error {
			text := `{"error":{"code":"internal","details":[` + strings.Repeat(`{},`, maxFolderReply/3-20) + `{}]}}`
			body := append(binary.BigEndian.AppendUint32([]byte{flagEndStream}, uint32(len(text))), text...)
			_, _, _, err := against(t, always(200, "application/connect+proto", body)).Files("").Read(ctx, "/a", false)
			return err
		},
		"header": func() error {
			_, err := against(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/proto")
				w.Header().Set("X-Long", strings.Repeat("x", 2<<20))
			})).Files("").List(ctx, "/")
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

// What an honest machine sends at most is decoded.
func TestHonestReplies(t *testing.T) {
	numbers := &structpb.ListValue{}
	for i := range 180_000 {
		numbers.Values = append(numbers.Values, structpb.NewNumberValue(float64(i)))
	}
	folder := &agentv1.ListDirectoryResponse{}
	for range 20_000 {
		folder.Entries = append(folder.Entries, &agentv1.DirectoryEntry{Name: "a"})
	}
	for _, m := range []proto.Message{numbers, folder} {
		wire, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got := m.ProtoReflect().New().Interface()
		if err := (sparing{}).Unmarshal(wire, got); err != nil || !proto.Equal(m, got) {
			t.Errorf("%T: %v", m, err)
		}
	}
}

// FuzzParts lets a machine send any bytes. What countParts admits must decode to
// few enough parts, and what it refuses must be refused by protobuf, or large.
func FuzzParts(f *testing.F) {
	for _, m := range []proto.Message{
		structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNullValue(), structpb.NewStructValue(&structpb.Struct{})}}),
		&structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewStringValue("b")}},
	} {
		wire, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		var v structpb.Value
		left := maxParts
		counted := countParts(wire, v.ProtoReflect().Descriptor(), maxNested, &left)
		decoded := proto.Unmarshal(wire, &v)
		if counted == nil && decoded == nil && left == maxParts && (v.GetListValue() != nil || v.GetStructValue() != nil) {
			t.Error("a message in the message was not counted")
		}
		if counted != nil && decoded == nil && !errors.Is(counted, errParts) {
			t.Errorf("protobuf decodes what countParts does not parse: %v", counted)
		}
	})
}
