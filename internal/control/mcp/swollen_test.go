package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// TestSwollenReplies checks that a small list of tools does not decode to
// gigabytes.
func TestSwollenReplies(t *testing.T) {
	const most = 96 << 20
	s := newServers(t)
	list := strings.Repeat("{},", 2<<20) + "{}"
	for _, kind := range []string{"application/json", "text/event-stream"} {
		server := remote(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var asked struct {
				ID     json.RawMessage
				Method string
			}
			_ = json.NewDecoder(r.Body).Decode(&asked)
			if len(asked.ID) == 0 {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			result := `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
			if asked.Method == "tools/list" {
				result = `{"tools":[` + list + `]}`
			}
			before, after := "", ""
			if kind == "text/event-stream" {
				before, after = "data: ", "\n\n"
			}
			w.Header().Set("Content-Type", kind)
			fmt.Fprintf(w, `%s{"jsonrpc":"2.0","id":%s,"result":%s}%s`, before, asked.ID, result, after)
		})))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := s.Test(t.Context(), server, User{})
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > most {
			t.Errorf("%s: it allocates %d MiB, error %v", kind, got>>20, err)
		}
	}
}
