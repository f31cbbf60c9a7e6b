package webhook

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/outbound"
	"aloft/internal/control/safe"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/conversation"
	"aloft/internal/policy"
	"aloft/internal/secret"
)

// sendFrom is the environment variable that makes the test binary act as the
// server to be killed.
const sendFrom = "ALOFT_TEST_SEND_FROM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(sendFrom); dir != "" {
		if err := victim(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// victim prints that it is ready, and sends deliveries until it is killed.
func victim(dir string) error {
	o, err := openOffice(dir)
	if err != nil {
		return err
	}
	fmt.Println("up")
	return o.sender().Run(context.Background())
}

const (
	key     = "0123456789abcdef0123456789abcdef"
	repoURL = "https://git.example.com/o/r"
)

// An office has the parts of a server that webhooks need, over a data folder that a test
// can close and open again.
type office struct {
	store *sqlite.Store
	safe  *safe.Safe
	post  *outbound.Client
}

func openOffice(dir string) (*office, error) {
	o := &office{}
	ctx := context.Background()
	var err error
	if o.store, err = sqlite.Open(ctx, filepath.Join(dir, "aloft.db"), slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	keeper, err := safe.OpenKeeper(ctx, safe.LocalKeeper, filepath.Join(dir, "keeper.key"))
	if err != nil {
		return nil, err
	}
	if o.safe, err = safe.New(safe.Config{Store: o.store, Keepers: []safe.Keeper{keeper}}); err != nil {
		return nil, err
	}
	o.post, err = outbound.New(policy.Network{Open: []string{"127.0.0.1"}})
	return o, err
}

func testOffice(t *testing.T, dir string) *office {
	t.Helper()
	o, err := openOffice(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.store.Close() })
	return o
}

func (o *office) sender() *Sender {
	return New(Config{
		Store: o.store, Owner: o.store.ServerID(), Webhook: o.safe.Webhook, Post: o.post.Post,
		PublicURL: func() string { return "http://aloft.test/" }, Every: 5 * time.Millisecond,
		Wait: func(int) time.Duration { return time.Millisecond },
	})
}

// run runs a sender until the test ends or stop is called.
func (o *office) run(t *testing.T, s *Sender) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = func() { cancel(); <-done; done <- nil }
	t.Cleanup(stop)
	return stop
}

// hooked creates an agent with an open run, whose webhook is at the URL.
func (o *office) hooked(t *testing.T, url string) (id, runID string) {
	t.Helper()
	id, runID = agent.NewID(), agent.NewRunID()
	sealed, err := o.safe.SealWebhook(t.Context(), id, url, key)
	if err != nil {
		t.Fatal(err)
	}
	var head int64
	_, err = o.store.Append(t.Context(), store.Append{AgentID: id, IfHead: &head, Secrets: []secret.Sealed{sealed}, Events: []agent.Event{
		{Body: &agent.Created{UserID: 1, Branch: "aloft/planned", Repos: []agent.Repo{{URL: repoURL, StartingRef: "main"}}}},
		{RunID: runID, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "x")}},
		{RunID: runID, Body: &agent.RunStarted{}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return id, runID
}

func (o *office) end(t *testing.T, id, runID string, bodies ...agent.Body) {
	t.Helper()
	var events []agent.Event
	for _, b := range bodies {
		events = append(events, agent.Event{RunID: runID, Body: b})
	}
	if _, err := o.store.Append(t.Context(), store.Append{AgentID: id, Events: events}); err != nil {
		t.Fatal(err)
	}
}

func (o *office) delivery(t *testing.T, id string) store.Delivery {
	t.Helper()
	list, err := o.store.Deliveries(t.Context(), id, store.Page{Limit: 9})
	if err != nil || len(list) != 1 {
		t.Fatalf("deliveries %v, %v; want one", list, err)
	}
	return list[0]
}

// eventually waits until holds returns true for the agent's only delivery.
func (o *office) eventually(t *testing.T, id string, holds func(store.Delivery) bool) store.Delivery {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		d := o.delivery(t, id)
		if holds(d) {
			return d
		}
		select {
		case <-deadline:
			t.Fatalf("the delivery stays %+v", d)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func in(state store.DeliveryState) func(store.Delivery) bool {
	return func(d store.Delivery) bool { return d.State == state }
}

// A letter is a request that a receiver got.
type letter struct {
	header http.Header
	body   []byte
}

// receiver starts a server that passes the requests to letters, and replies
// with answer.
func receiver(t *testing.T, answer http.HandlerFunc) (url string, letters <-chan letter) {
	t.Helper()
	got := make(chan letter, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- letter{r.Header, body}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/hook?token=of-the-path", got
}

func next(t *testing.T, letters <-chan letter) letter {
	t.Helper()
	select {
	case l := <-letters:
		return l
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing is delivered")
		return letter{}
	}
}

func ok(http.ResponseWriter, *http.Request) {}

func TestDelivery(t *testing.T) {
	o := testOffice(t, t.TempDir())
	o.run(t, o.sender())
	url, letters := receiver(t, ok)
	id, runID := o.hooked(t, url)
	o.end(t, id, runID, &agent.Pushed{RepoURL: repoURL, Branch: "aloft/pushed"}, &agent.RunEnded{Status: agent.Finished, Result: "All <done>."})
	l := next(t, letters)
	d := o.eventually(t, id, in(store.DeliveryDone))
	var got map[string]any
	if err := json.Unmarshal(l.body, &got); err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprint(got["timestamp"])
	delete(got, "timestamp")
	want := map[string]any{
		"event": "statusChange", "id": id, "status": "FINISHED", "summary": "All <done>.",
		"source": map[string]any{"repository": repoURL, "ref": "main"},
		"target": map[string]any{"url": "http://aloft.test/agents/" + id, "branchName": "aloft/pushed"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("delivered %v, want %v", got, want)
	}
	if _, err := time.Parse(time.RFC3339, at); err != nil {
		t.Errorf("timestamp %q", at)
	}
	if l.header.Get("X-Webhook-ID") != d.ID || l.header.Get("X-Webhook-Event") != "statusChange" || l.header.Get("Content-Type") != "application/json" ||
		!hmac.Equal([]byte(l.header.Get("X-Webhook-Signature")), []byte(Sign(key, l.body))) {
		t.Errorf("headers %v", l.header)
	}
	if d.Attempts != 1 || d.LastStatus != 200 || d.LastError != "" {
		t.Errorf("recorded %+v", d)
	}

	// A redelivery has the same id and body.
	if err := o.store.Redeliver(t.Context(), id, d.ID); err != nil {
		t.Fatal(err)
	}
	if again := next(t, letters); again.header.Get("X-Webhook-ID") != d.ID || string(again.body) != string(l.body) {
		t.Errorf("replayed %v %s", again.header, again.body)
	}

	for status, want := range map[agent.Status]string{agent.Failed: "ERROR", agent.Cancelled: "FINISHED", agent.Expired: "ERROR"} {
		id, runID := o.hooked(t, url)
		said := ""
		if status == agent.Expired {
			said = "half of it is done" // the last message, not the reason why the run ended
		}
		o.end(t, id, runID, &agent.RunEnded{Status: status, Result: said, Failure: &agent.Failure{Code: "c", Message: "why"}})
		if l := next(t, letters); !strings.Contains(string(l.body), said) || !strings.Contains(string(l.body), `"status":"`+want+`"`) || !strings.Contains(string(l.body), `"branchName":"aloft/planned"`) || !strings.Contains(string(l.body), "why") {
			t.Errorf("%s is told as %s", status, l.body)
		}
	}
}

// A request is reported once and in its original form, even if it has been
// answered since or the server was killed.
func TestAQuestionIsTold(t *testing.T) {
	o := testOffice(t, t.TempDir())
	url, letters := receiver(t, ok)
	id, runID := o.hooked(t, url)
	asked := agent.Approval{
		ID: agent.NewApprovalID(), RunID: runID, CallID: "call_1", Tool: "Shell", Subject: "rm -rf build", Reason: "tidy", Why: "no entry allows it",
		Entries: []string{"rm -rf build"}, AskedAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Until: time.Date(2030, 1, 3, 3, 4, 5, 0, time.UTC),
	}
	o.end(t, id, runID, &agent.ApprovalAsked{Approval: asked}, &agent.ApprovalAnswered{ApprovalID: asked.ID, Decision: agent.Deny})
	if d := o.delivery(t, id); d.Event != store.ApprovalRequested || d.RunID != runID {
		t.Errorf("the delivery is %+v", d)
	}
	o.run(t, o.sender())
	l := next(t, letters)
	var got map[string]any
	if err := json.Unmarshal(l.body, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"event": "approvalRequested", "timestamp": "2030-01-02T03:04:05Z", "id": id, "status": "RUNNING", "summary": "no entry allows it",
		"source": map[string]any{"repository": repoURL, "ref": "main"}, "target": map[string]any{"url": "http://aloft.test/agents/" + id},
		"approval": map[string]any{
			"id": asked.ID, "runId": runID, "tool": "Shell", "subject": "rm -rf build", "reason": "tidy", "why": "no entry allows it",
			"entries": []any{"rm -rf build"}, "until": "2030-01-03T03:04:05Z",
		},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("delivered %v, want %v", got, want)
	}
	if l.header.Get("X-Webhook-Event") != "approvalRequested" || !hmac.Equal([]byte(l.header.Get("X-Webhook-Signature")), []byte(Sign(key, l.body))) {
		t.Errorf("headers %v", l.header)
	}
	first := o.eventually(t, id, in(store.DeliveryDone))
	if err := o.store.Redeliver(t.Context(), id, first.ID); err != nil {
		t.Fatal(err)
	}
	if again := next(t, letters); again.header.Get("X-Webhook-ID") != first.ID || string(again.body) != string(l.body) {
		t.Errorf("replayed %v %s", again.header, again.body)
	}
	o.end(t, id, runID, &agent.RunEnded{Status: agent.Finished})
	if l := next(t, letters); l.header.Get("X-Webhook-Event") != "statusChange" || l.header.Get("X-Webhook-ID") == first.ID {
		t.Errorf("the run's end has the headers %v", l.header)
	}
}

func TestSignature(t *testing.T) {
	// RFC 4231, test case 2.
	if got := Sign("Jefe", []byte("what do ya want for nothing?")); got != "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" {
		t.Error(got)
	}
}

func TestRetries(t *testing.T) {
	o := testOffice(t, t.TempDir())
	o.run(t, o.sender())
	answers := make(chan int, 3)
	for _, status := range []int{500, 302, 429} {
		answers <- status
	}
	url, letters := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case status := <-answers:
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		default:
			if r.URL.Path != "/hook" {
				t.Errorf("a redirect was followed to %s", r.URL.Path)
			}
		}
	})
	id, runID := o.hooked(t, url)
	o.end(t, id, runID, &agent.RunEnded{Status: agent.Finished})
	d := o.eventually(t, id, in(store.DeliveryDone))
	if d.Attempts != 4 {
		t.Errorf("%d attempts, want 4", d.Attempts)
	}
	for range 4 {
		if l := next(t, letters); l.header.Get("X-Webhook-ID") != d.ID {
			t.Errorf("an attempt has the id %s, not %s", l.header.Get("X-Webhook-ID"), d.ID)
		}
	}
}

// If an admin has disabled summaries, the server does not send the agent's
// messages, but it reports the end of a run.
func TestNothingIsTold(t *testing.T) {
	o := testOffice(t, t.TempDir())
	sender := o.sender()
	sender.Shown = func(context.Context, agent.Agent, agent.Run) (bool, error) { return false, nil }
	o.run(t, sender)
	url, letters := receiver(t, ok)
	id, runID := o.hooked(t, url)
	o.end(t, id, runID, &agent.RunEnded{Status: agent.Finished, Result: "A word of it.", Outcome: agent.Partly, Evidence: &agent.Evidence{
		Checks: []agent.CheckResult{{Check: agent.Check{Command: "test word"}, State: agent.CheckFailed, Output: "no word"}},
	}})
	if l := next(t, letters); bytes.Contains(l.body, []byte("word")) || !bytes.Contains(l.body, []byte(`"outcome":"partly"`)) || !bytes.Contains(l.body, []byte(`"status":"FINISHED"`)) {
		t.Errorf("told %s", l.body)
	}
}

func TestGivenUpAndReplayed(t *testing.T) {
	o := testOffice(t, t.TempDir())
	s := o.sender()
	s.Wait = func(attempts int) time.Duration { return time.Duration(attempts/3) * store.DeliverWithin }
	o.run(t, s)
	url, _ := receiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	id, runID := o.hooked(t, url)
	o.end(t, id, runID, &agent.RunEnded{Status: agent.Finished})
	if d := o.eventually(t, id, in(store.DeliveryFailed)); d.Attempts != 3 || d.LastStatus != 418 || !strings.Contains(d.LastError, "418") {
		t.Errorf("given up: %+v", d)
	}
}

// The server does not contact blocked addresses, and the error contains only
// the URL's host.
func TestUnreachable(t *testing.T) {
	o := testOffice(t, t.TempDir())
	o.run(t, o.sender())
	for _, url := range []string{"http://10.1.2.3/a-secret", "http://127.0.0.1:1/a-secret", "http://169.254.169.254/a-secret", "http://[::ffff:10.0.0.1]/a-secret"} {
		id, runID := o.hooked(t, url)
		o.end(t, id, runID, &agent.RunEnded{Status: agent.Finished})
		d := o.eventually(t, id, func(d store.Delivery) bool { return d.Attempts > 0 })
		if d.LastStatus != 0 || d.LastError == "" || strings.Contains(d.LastError, "a-secret") {
			t.Errorf("%s: %+v", url, d)
		}
		if err := o.store.DeleteAgent(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBackoff(t *testing.T) {
	var total time.Duration
	attempts := 0
	for ; total < store.DeliverWithin; attempts++ {
		wait := Backoff(attempts + 1)
		if wait < firstWait*9/10 || wait > longest*11/10 {
			t.Errorf("after attempt %d: %v", attempts+1, wait)
		}
		total += wait
	}
	if attempts < 20 || attempts > 50 {
		t.Errorf("%d attempts in a day", attempts)
	}
}

// A server that is killed at any point neither loses nor duplicates a delivery.
// The test kills it before it sends, and before the receiver has replied.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	held := make(chan struct{})
	url, letters := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	})
	o := testOffice(t, dir)
	var ids []string
	for range 3 {
		id, runID := o.hooked(t, url)
		o.end(t, id, runID, &agent.RunEnded{Status: agent.Finished})
		ids = append(ids, id)
	}
	if err := o.store.Close(); err != nil { // the server sent nothing
		t.Fatal(err)
	}
	first := map[string]string{} // delivery ids by agent
	for range 2 {
		kill := start(t, dir)
		for range ids {
			l := next(t, letters)
			var p payload
			if err := json.Unmarshal(l.body, &p); err != nil {
				t.Fatal(err)
			}
			if old := first[p.ID]; old != "" && old != l.header.Get("X-Webhook-ID") {
				t.Errorf("agent %s was told with the ids %s and %s", p.ID, old, l.header.Get("X-Webhook-ID"))
			}
			first[p.ID] = l.header.Get("X-Webhook-ID")
		}
		kill() // killed before any reply
	}
	close(held)
	o = testOffice(t, dir)
	stop := o.run(t, o.sender())
	for _, id := range ids {
		if d := o.eventually(t, id, in(store.DeliveryDone)); d.ID != first[id] || d.Attempts != 1 {
			t.Errorf("delivered %+v, the first had the id %s", d, first[id])
		}
	}
	stop()
}

// start runs a sender as a separate process, and returns a function that kills
// it.
func start(t *testing.T, dir string) (kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), sendFrom+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Fatalf("the victim says %q, %v", line, err)
	}
	return func() {
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
	}
}
