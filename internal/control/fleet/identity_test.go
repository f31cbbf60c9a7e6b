package fleet

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/identity"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// signer records the workload for which it signs.
type signer struct{ last identity.Workload }

func (s *signer) Token(w identity.Workload, audience, nonce string) (string, time.Time, error) {
	s.last = w
	switch audience {
	case "":
		return "", time.Time{}, fault.Invalid("aud is missing")
	case "broken":
		return "", time.Time{}, errors.New("key.pem: no such file")
	}
	return audience + "." + nonce, time.Unix(1, 0), nil
}

func TestTokensAreOfTheAgentWhoseMachineAsks(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	id, none := agent.NewID(), int64(0)
	if _, err := db.Append(t.Context(), store.Append{AgentID: id, IfHead: &none, Events: []agent.Event{
		{Body: &agent.Created{Name: "a", UserID: 7, Repos: []agent.Repo{{URL: "https://git.test/a/b"}}}},
		{RunID: "run-1", Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "do")}},
	}}); err != nil {
		t.Fatal(err)
	}
	keys := new(signer)
	s := New(Config{Journal: db, Agents: db, Identity: keys, Logger: log})
	machine := httptest.NewServer(s.tokenRoutes(id))
	t.Cleanup(machine.Close)
	ask := func(body string) (int, string) {
		t.Helper()
		res, err := http.Post(machine.URL+"/v1/tokens/oidc", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	status, got := ask(`{"aud":"a","nonce":"n","agent":"bc-other"}`)
	if status != 200 || got != `{"expires_at":"1970-01-01T00:00:01Z","token":"a.n"}`+"\n" {
		t.Errorf("status %d, %s", status, got)
	}
	if want := (identity.Workload{AgentID: id, RunID: "run-1", OwnerID: "7", Repo: "https://git.test/a/b"}); keys.last != want {
		t.Errorf("signed for %+v, want %+v", keys.last, want)
	}
	for body, want := range map[string]int{
		"": 400, "[]": 400, `{"aud":""}`: 400, `{"aud":"` + strings.Repeat("a", maxTokenBody) + `"}`: 400, `{"aud":"broken"}`: 503,
	} {
		if status, got := ask(body); status != want || strings.Contains(got, "key.pem") {
			t.Errorf("%.20q: status %d, %s", body, status, got)
		}
	}
	for range tokensBurst {
		if status, got = ask(`{"aud":"a"}`); status == 429 {
			break
		}
	}
	if status != 429 || !strings.Contains(got, "expires") {
		t.Errorf("a machine that asks on and on gets status %d, %s", status, got)
	}
}

// FuzzTokenRequest checks that every token request gets a JSON reply and causes
// no internal error.
func FuzzTokenRequest(f *testing.F) {
	f.Add(`{"aud":"https://example.com","nonce":"n"}`)
	f.Add(`{"aud":1}`)
	f.Add(`{"aud":"a"}{"aud":"b"}`)
	log := slog.New(slog.DiscardHandler)
	db, err := sqlite.Open(f.Context(), filepath.Join(f.TempDir(), "a.db"), log)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = db.Close() })
	id, none := agent.NewID(), int64(0)
	if _, err := db.Append(f.Context(), store.Append{AgentID: id, IfHead: &none, Events: []agent.Event{
		{Body: &agent.Created{Name: "a", UserID: 7}}, {RunID: "run-1", Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "do")}},
	}}); err != nil {
		f.Fatal(err)
	}
	s := New(Config{Journal: db, Agents: db, Identity: new(signer), Logger: log})
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		s.tokenRoutes(id).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/tokens/oidc", strings.NewReader(body)))
		if !json.Valid(w.Body.Bytes()) || w.Code != http.StatusOK && w.Code != http.StatusBadRequest && !strings.Contains(body, "broken") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
