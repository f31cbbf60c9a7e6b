package inbound

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/fault"
)

const secret = "0123456789abcdef0123456789abcdef"

func repoOf(path string) forge.Repo { return forge.Repo{Host: "git.example.com", Path: path} }

func stored(source, kind, body string) store.InboundEvent {
	return store.InboundEvent{ID: "evt-1", Source: source, Connection: "acme", Kind: kind, Body: []byte(body)}
}

// world is an inbox in a store. Its handler records the changes that it gets.
type world struct {
	t     *testing.T
	store *sqlite.Store
	inbox *Inbox

	mu      sync.Mutex
	changes []Change
	fail    func(c Change) error // returned by the handler's calls; nil means success
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &world{t: t, store: s, inbox: NewInbox(Config{Store: s, Connections: []Connection{
		{Name: "acme", Source: "github", Host: "git.example.com", Secret: secret},
		{Name: "lab", Source: "gitlab", Host: "git.example.com", Secret: secret},
	}})}
}

// Changed implements [Handler].
func (w *world) Changed(_ context.Context, c Change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, c)
	if w.fail != nil {
		return w.fail(c)
	}
	return nil
}

func (w *world) comment(number, id int) (kind string, body []byte) {
	return "issue_comment", fmt.Appendf(nil, `{"action":"created","issue":{"number":%d,"pull_request":{}},"comment":{"id":%d},"repository":{"full_name":"acme/widget"},"sender":{"login":"ada"}}`, number, id)
}

func signed(delivery, kind string, body []byte) http.Header {
	return headers("X-GitHub-Delivery", delivery, "X-GitHub-Event", kind, "X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum([]byte(secret), body)))
}

func (w *world) accept(delivery string, number int) string {
	w.t.Helper()
	kind, body := w.comment(number, 5)
	id, err := w.inbox.Accept(w.t.Context(), "github", "acme", signed(delivery, kind, body), body)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) list() []store.InboundEvent {
	w.t.Helper()
	all, err := w.store.Inbound(w.t.Context(), "", store.Page{Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// work runs a worker until done.
func (w *world) work(done func([]store.InboundEvent) bool) []store.InboundEvent {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	worker := NewWorker(WorkerConfig{Inbox: w.inbox, Handler: w, Owner: "a", Every: time.Millisecond, Wait: func(int) time.Duration { return time.Millisecond }})
	over := make(chan error, 1)
	go func() { over <- worker.Run(ctx) }()
	for !done(w.list()) {
		if w.t.Context().Err() != nil {
			w.t.Fatal("the events were not handled in time")
		}
	}
	stop()
	if err := <-over; err != nil {
		w.t.Fatal(err)
	}
	return w.list()
}

func settled(all []store.InboundEvent) bool {
	return !slices.ContainsFunc(all, func(e store.InboundEvent) bool { return e.State == store.InboundQueued })
}

// A delivery that arrives twice is stored and handled once. Deliveries that
// arrive out of order are all handled.
func TestEveryDeliveryIsHandledOnce(t *testing.T) {
	w := newWorld(t)
	first := w.accept("d2", 2)
	if again := w.accept("d2", 2); again != first {
		t.Errorf("repeated: %s, want %s", again, first)
	}
	w.accept("d1", 1)
	all := w.work(settled)
	if len(all) != 2 || len(w.changes) != 2 {
		t.Fatalf("stored %+v, handled %+v", all, w.changes)
	}
	if again := w.accept("d2", 2); again != first {
		t.Errorf("repeated after it was handled: %s", again)
	}
	if all := w.list(); !settled(all) || len(all) != 2 {
		t.Errorf("a repeated delivery is queued: %+v", all)
	}
	for _, c := range w.changes {
		if c.Repo != repoOf("acme/widget") || c.Number != 1 && c.Number != 2 || c.Kind != Comment || c.Actor != "ada" {
			t.Errorf("%+v", c)
		}
	}
}

func TestOutcomes(t *testing.T) {
	w := newWorld(t)
	tries := 0
	w.fail = func(c Change) error {
		switch c.Number {
		case 1:
			return ignore("nobody waits for it")
		case 2:
			if tries++; tries < 3 {
				return fault.Unavailable("the forge does not answer")
			}
		case 3:
			panic("a defect")
		}
		return nil
	}
	for n := range 4 {
		w.accept(fmt.Sprint("d", n), n)
	}
	body := []byte(`{"action":`)
	if _, err := w.inbox.Accept(t.Context(), "github", "acme", signed("bad", "issue_comment", body), body); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range w.work(settled) {
		got[e.Delivery] = fmt.Sprintf("%s %d %s", e.State, e.Attempts, e.Reason)
	}
	for delivery, want := range map[string]string{
		"d0":  "ignored 1 the event names no pull request, branch or commit",
		"d1":  "ignored 1 nobody waits for it",
		"d2":  "done 3 ",
		"d3":  "failed 1 internal error",
		"bad": "failed 1 the event cannot be read: unexpected end of JSON input",
	} {
		if got[delivery] != want {
			t.Errorf("%s: %q, want %q", delivery, got[delivery], want)
		}
	}
}

// An event whose handling always fails is given up after a day. A replay
// handles it again.
func TestGivenUpAndReplayed(t *testing.T) {
	w := newWorld(t)
	w.inbox.now = func() time.Time { return time.Now().Add(-store.HandleInboundWithin) }
	w.fail = func(Change) error { return fault.Unavailable("the forge does not answer") }
	id := w.accept("d1", 1)
	if all := w.work(settled); all[0].State != store.InboundFailed || all[0].Reason != "the forge does not answer" {
		t.Fatalf("%+v", all)
	}
	w.fail = nil
	if err := w.store.ReplayInbound(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if all := w.work(settled); all[0].State != store.InboundDone || len(w.changes) != 2 {
		t.Errorf("%+v, handled %d times", all, len(w.changes))
	}
}

// If a server dies while it handles an event, the next server handles that
// event.
func TestServerDiesWhileHandling(t *testing.T) {
	w := newWorld(t)
	w.accept("d1", 1)
	if claimed, err := w.store.ClaimInbound(t.Context(), "a", time.Hour, 10); err != nil || len(claimed) != 1 {
		t.Fatalf("%+v, %v", claimed, err)
	}
	if all := w.work(settled); all[0].State != store.InboundDone || len(w.changes) != 1 {
		t.Errorf("%+v, handled %d times", all, len(w.changes))
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	kind, body := w.comment(1, 5)
	good := signed("d1", kind, body)
	with := func(name, value string) http.Header {
		h := good.Clone()
		h.Set(name, value)
		return h
	}
	for _, tt := range []struct {
		name, source, connection string
		h                        http.Header
		want                     fault.Kind
	}{
		{"without a signature", "github", "acme", with("X-Hub-Signature-256", ""), fault.KindUnauthenticated},
		{"with another signature", "github", "acme", with("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum([]byte("other"), body))), fault.KindUnauthenticated},
		{"of another connection", "gitlab", "lab", good, fault.KindUnauthenticated},
		{"unknown connection", "github", "nobody", good, fault.KindNotFound},
		{"connection of another source", "gitlab", "acme", good, fault.KindNotFound},
		{"unknown source", "svn", "acme", good, fault.KindNotFound},
		{"a form", "github", "acme", with("Content-Type", "application/x-www-form-urlencoded"), fault.KindInvalid},
		{"without an id", "github", "acme", with("X-GitHub-Delivery", ""), fault.KindInvalid},
		{"with a strange id", "github", "acme", with("X-GitHub-Delivery", "a\nb"), fault.KindInvalid},
	} {
		if _, err := w.inbox.Accept(t.Context(), tt.source, tt.connection, tt.h, body); err == nil || fault.Of(err).Kind != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if all := w.list(); len(all) != 0 {
		t.Errorf("stored: %+v", all)
	}
}

// The server verifies the signature even if the connection does not exist.
func TestUnknownConnectionTakesAsLong(t *testing.T) {
	w := newWorld(t)
	before := sources["github"]
	verified := 0
	counted := before
	counted.verify = func(secret string, h http.Header, body []byte, now time.Time) error {
		verified++
		return before.verify(secret, h, body, now)
	}
	sources["github"] = counted
	t.Cleanup(func() { sources["github"] = before })
	for _, name := range []string{"acme", "nobody"} {
		_, _ = w.inbox.Accept(t.Context(), "github", name, headers(), []byte("{}"))
	}
	if verified != 2 {
		t.Errorf("verified %d times", verified)
	}
	_, err := w.inbox.Accept(t.Context(), "github", "nobody", headers("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum([]byte(w.inbox.decoy), []byte("{}")))), []byte("{}"))
	if !fault.Is(err, fault.KindNotFound) {
		t.Errorf("the decoy's secret: %v", err)
	}
}

func TestConnectionCheck(t *testing.T) {
	for _, tt := range []struct {
		c    Connection
		want bool
	}{
		{Connection{"acme", "github", "", secret}, true},
		{Connection{"acme", "gitea", "Git.example.com:3000", secret}, true},
		{Connection{"acme", "gitlab", "", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, true},
		{Connection{"acme", "gitlab", "", "whsec_not base64 at all"}, false},
		{Connection{"acme", "gitea", "", secret}, false},
		{Connection{"acme", "gitea", "git.example.com/x", secret}, false},
		{Connection{"acme", "gitea", "user@git.example.com", secret}, false},
		{Connection{"Acme", "github", "", secret}, false},
		{Connection{"", "github", "", secret}, false},
		{Connection{"acme", "svn", "", secret}, false},
		{Connection{"acme", "github", "", "short"}, false},
	} {
		c := tt.c
		if err := c.Check(); (err == nil) != tt.want || err == nil && c.Host == "" {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// listener acts on the events whose kinds it names.
type listener struct {
	acts  []string
	err   error
	heard []Event
}

func (l *listener) Heard(_ context.Context, e Event) (bool, error) {
	l.heard = append(l.heard, e)
	return slices.Contains(l.acts, e.Kind), l.err
}

// A listener gets every event, also those that no handler gets. An event on which it
// has acted is done.
func TestListener(t *testing.T) {
	w := newWorld(t)
	l := &listener{acts: []string{"push"}}
	worker := NewWorker(WorkerConfig{Inbox: w.inbox, Handler: w, Also: l, Owner: "a"})
	repository := `"repository":{"full_name":"acme/widget"},"sender":{"login":"ada"}`
	for i, tt := range []struct {
		kind, body string
		err        error
		want       store.InboundState
	}{
		{"push", `{` + repository + `}`, nil, store.InboundDone},
		{"star", `{` + repository + `}`, nil, store.InboundIgnored},
		{"star", `{` + repository + `}`, Ignored("eve may not write"), store.InboundIgnored},
		{"push", `[]`, nil, store.InboundDone},
		{"star", `[]`, nil, store.InboundFailed},
		{"star", `{` + repository + `}`, errors.New("the store is away"), store.InboundQueued},
	} {
		l.err = tt.err
		id, err := w.inbox.Accept(t.Context(), "github", "acme", signed(fmt.Sprint("l", i), tt.kind, []byte(tt.body)), []byte(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		all, err := w.store.ClaimInbound(t.Context(), "a", time.Hour, 10)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		worker.attempt(t.Context(), all[0])
		got, err := w.store.InboundEvent(t.Context(), id)
		if err != nil || got.State != tt.want || string(got.Body) != tt.body {
			t.Errorf("%d: %s %q, %v, want %s", i, got.State, got.Reason, err, tt.want)
		}
	}
	if e := l.heard[0]; len(l.heard) != 6 || e.Change.Repo != repoOf("acme/widget") || e.Change.Actor != "ada" || e.ID == "" || e.Connection != "acme" {
		t.Errorf("heard %+v", l.heard)
	}
	if len(w.changes) != 0 {
		t.Errorf("handled %+v", w.changes)
	}
}
