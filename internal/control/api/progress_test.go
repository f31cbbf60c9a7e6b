package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"aloft/internal/control/api/machines"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
)

func TestProgressOfAUser(t *testing.T) {
	t.Parallel()
	const ann, ben = 1, 2
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, tt := range []struct {
		name string
		rt   rest.Route
		most int
	}{
		{"short", rest.Route{ID: "getAgent"}, maxShort},
		{"long", rest.Route{ID: "streamRun", Long: true}, maxLong},
		{"transfers", rest.Route{ID: "readFile", Long: true}, maxTransfer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var p progress
			var ends []func()
			begin := func(id int64) error {
				done, err := p.begin(t.Context(), tt.rt, id)
				if err == nil {
					ends = append(ends, done)
				}
				return err
			}
			for range tt.most {
				if err := begin(ann); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := p.begin(gone, tt.rt, ann); !fault.Is(err, fault.KindExhausted) {
				t.Errorf("one more: %v", err)
			}
			if err := begin(ben); err != nil {
				t.Errorf("somebody else: %v", err)
			}
			ends[0]()
			if err := begin(ann); err != nil {
				t.Errorf("after one has ended: %v", err)
			}
			for _, end := range ends[1:] {
				end()
			}
			if len(p.of) != 0 {
				t.Errorf("%d users are kept", len(p.of))
			}
		})
	}
}

// A short request waits until another one has ended.
func TestShortRequestsWait(t *testing.T) {
	t.Parallel()
	var p progress
	rt := rest.Route{ID: "getAgent"}
	var ends []func()
	for range maxShort {
		done, err := p.begin(t.Context(), rt, 1)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, done)
	}
	began := make(chan error)
	go func() {
		_, err := p.begin(t.Context(), rt, 1)
		began <- err
	}()
	ends[0]()
	if err := <-began; err != nil {
		t.Error(err)
	}
}

// endless is a machine all of whose files have no end.
type endless struct{ farFiles }

func (endless) Read(context.Context, string, bool) (int64, string, io.ReadCloser, error) {
	return 1 << 40, "", io.NopCloser(spaces{}), nil
}

// endlessEnd is a machine with such files.
type endlessEnd struct{ filesEnd }

func (e endlessEnd) Files(context.Context, string) (machines.Files, error) {
	return endless{e.files}, nil
}

// A member who does not read downloads can have only some of them.
func TestUnreadDownloads(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	h.api.machines.Machines = endlessEnd{filesEnd{files: farFiles{Root: root, closed: new(atomic.Int64)}}}
	path := "/v1/agents/" + id + "/files/contents?path=x"
	for n := range maxTransfer + 1 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.http.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+annsKey)
		resp, err := h.http.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		want := http.StatusOK
		if n == maxTransfer {
			want = http.StatusTooManyRequests
		}
		if resp.StatusCode != want {
			t.Errorf("download %d: %d, want %d", n, resp.StatusCode, want)
		}
	}
	h.want(h.call("GET", "/v1/agents/"+id, ""), 200)
}

func TestReplyThatIsNotRead(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer readWithin(w, 50*time.Millisecond)()
		_, err := io.Copy(w, spaces{}) // without the deadline, it never ends
		ended <- err
	}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := <-ended; err == nil {
		t.Error("an endless reply was written")
	}
}
