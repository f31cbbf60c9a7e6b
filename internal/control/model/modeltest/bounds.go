package modeltest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// A Format writes the events of one API, for [Bounds].
type Format struct {
	Begin string // sent first
	// Text returns an event with a piece of text. Args returns an event with a
	// piece of the first call's arguments, and is nil if the API sends
	// arguments whole. Call returns an event with the i-th call.
	Text, Args func(piece string) string
	Call       func(i int) string
	// Values returns an event with n empty JSON values in a place where the API
	// has a list.
	Values func(n int) string
}

// maxHeap is the maximum heap in bytes that the hostile replies of [Bounds] may need.
const maxHeap = 192 << 20

// Bounds checks that a hostile server cannot make its client use much memory.
// If a reply is too long, or has too many or too large parts, the stream must
// end with an error that says so. open returns a model that uses the server at
// url.
func Bounds(t *testing.T, f Format, open func(t *testing.T, url string) model.Model) {
	t.Helper()
	mib := strings.Repeat("x", 1<<20)
	cases := []struct {
		name, want string
		event      func(i int) string
	}{
		{"Text", "the reply is longer than 8 MiB", func(int) string { return f.Text(mib) }},
		{"Calls", "the reply has more than 256 tool calls", f.Call},
		{"Event", "an event of the stream is larger than 8 MiB", func(int) string { return f.Text(strings.Repeat(mib, 9)) }},
		{"Line", "an event of the stream is larger than 8 MiB", func(int) string { return mib }},
		{"Lines", "an event of the stream is larger than 8 MiB", func(int) string { return "data: " + mib + "\n" }},
		{"Values", "an event of the stream has more than 65536 JSON values", func(int) string { return f.Values(2_500_000) }},
		{"Escaped", "an event of the stream has more than 65536 JSON values", func(int) string { return f.Text(`\"`) + f.Text(`\\`) + f.Values(2_500_000) }},
	}
	if f.Args != nil {
		cases = append(cases, struct {
			name, want string
			event      func(i int) string
		}{"Args", "the arguments of a tool call are longer than 4 MiB", func(i int) string {
			if i == 0 {
				return f.Call(0)
			}
			return f.Args(mib)
		}})
	}
	before := heap()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				_, err := io.WriteString(w, f.Begin)
				for i := 0; err == nil; i++ {
					_, err = io.WriteString(w, c.event(i))
				}
			}))
			defer s.Close()
			req := model.Request{Messages: []conversation.Message{conversation.Text(conversation.User, "hi")}}
			var last error
			for ev, err := range open(t, s.URL).Stream(t.Context(), req) {
				if last = err; ev.Done != nil {
					t.Error("the reply is complete")
				}
			}
			if model.ReasonOf(last) != model.BadReply || !strings.Contains(fmt.Sprint(last), c.want) {
				t.Errorf("got %.300v, want %q", last, c.want)
			}
		})
	}
	used := heap() - before
	t.Logf("the heap grew by %d MiB", used>>20)
	if used > maxHeap {
		t.Errorf("hostile replies made the heap grow by %d MiB, want at most %d", used>>20, maxHeap>>20)
	}
}

// heap returns the maximum size of the heap, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapSys)
}
