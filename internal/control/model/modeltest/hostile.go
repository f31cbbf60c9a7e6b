package modeltest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/model"
)

// Hostile sends a request to a model with a hostile server, and fails the test
// unless the stream ends as [model.Model] requires: with one complete reply
// that can be stored, or with one error of the provider.
func Hostile(t *testing.T, m model.Model, req model.Request, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	ends := 0
	for ev, err := range m.Stream(ctx, req) {
		if ends > 0 {
			t.Fatal("something came after the end")
		}
		if err != nil {
			ends++
			if model.ReasonOf(err) == "" {
				t.Fatalf("an error that is not the provider's: %v", err)
			}
			continue
		}
		if ev.Done == nil {
			continue
		}
		ends++
		if _, err := json.Marshal(ev.Done.Message); err != nil {
			t.Fatalf("a reply that cannot be stored: %v", err)
		}
		ids := map[string]bool{}
		for _, c := range ev.Done.Message.Calls() {
			if ids[c.ID] || c.ID == "" {
				t.Fatalf("call id %q is empty or there twice", c.ID)
			}
			ids[c.ID] = true
		}
	}
	if ends != 1 {
		t.Fatalf("%d ends", ends)
	}
}

// Swollen sends requests to a model with a server whose replies are small but
// decode to much more, and fails the test if one reply makes the client
// allocate more than 64 MiB. open returns the model for a base URL; formats
// are replies in which "%s" is replaced by millions of elements of a list.
func Swollen(t *testing.T, open func(url string) model.Model, req model.Request, formats ...string) {
	t.Helper()
	const most = 64 << 20
	for _, format := range formats {
		for _, element := range []string{"{},", "0,"} {
			list := strings.Repeat(element, 4<<20/len(element))
			body := strings.Replace(format, "%s", list[:len(list)-1], 1)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, body) // the client may hang up
			}))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			Hostile(t, open(s.URL), req, 2*time.Minute)
			runtime.ReadMemStats(&after)
			s.Close()
			if got := after.TotalAlloc - before.TotalAlloc; got > most {
				t.Errorf("%.60q of %.8q allocates %d MiB", format, element, got>>20)
			}
		}
	}
}
