package agents

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// A bench is a [Creator] with its own store.
type bench struct {
	Creator
	t     *testing.T
	store *sqlite.Store
	by    account.APIKey
	woken []string
}

// noSecrets encrypts nothing.
type noSecrets struct{ Secrets }

func (noSecrets) SealInherited(context.Context, string, agent.Agent) ([]secret.Sealed, error) {
	return nil, nil
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	user, err := s.AddUser(t.Context(), account.User{Email: "ann@example.com", Role: account.Member})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, store: s, by: account.APIKey{UserID: user.ID, Role: user.Role}}
	b.Creator = Creator{
		Journal: s, Agents: s, Rules: s, Environments: s, Secrets: noSecrets{},
		Models: Models{Rules: s, All: []model.Info{{ID: "house"}, {ID: "big"}}, Default: "house"},
		Wake:   func(id string) { b.woken = append(b.woken, id) },
	}
	return b
}

func (b *bench) request(prompt string) Request {
	return Request{By: b.by, ID: agent.NewID(), RunID: agent.NewRunID(), Prompt: Prompt{Text: prompt}}
}

// create creates an agent whose run has ended.
func (b *bench) create(prompt string) agent.Agent {
	b.t.Helper()
	made, err := b.Create(b.t.Context(), b.request(prompt))
	if err != nil {
		b.t.Fatal(err)
	}
	ended := []agent.Event{{RunID: made.Run.ID, Body: &agent.RunEnded{Status: agent.Finished}}}
	if _, err := b.store.Append(b.t.Context(), store.Append{AgentID: made.Agent.ID, Events: ended}); err != nil {
		b.t.Fatal(err)
	}
	return made.Agent
}

func (b *bench) set(s account.Settings) {
	b.t.Helper()
	if err := store.PutSettings(b.t.Context(), b.store, account.History{}.With(s, time.Now())); err != nil {
		b.t.Fatal(err)
	}
}

// TestCreateAppliesTheTeamsSettings checks that an agent gets the team's repository,
// base branch, model and privacy mode unless the request names others.
func TestCreateAppliesTheTeamsSettings(t *testing.T) {
	b := newBench(t)
	b.set(account.Settings{DefaultRepository: "https://git.test/o/r", BaseBranch: "next", DefaultModel: "big", Privacy: true})

	q := b.request("Fix the parser")
	made, err := b.Create(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	a := made.Agent
	if a.ID != q.ID || a.UserID != b.by.UserID || a.Model != "big" || made.Run.ID != q.RunID || !slices.Equal(b.woken, []string{q.ID}) {
		t.Errorf("agent %+v, run %+v, woken %v", a, made.Run, b.woken)
	}
	if len(a.Repos) != 1 || a.Repos[0].URL != "https://git.test/o/r" || a.Repos[0].StartingRef != "next" || !a.Repos[0].TeamBase {
		t.Errorf("repositories %+v", a.Repos)
	}
	created, _ := made.First[0].Body.(*agent.Created)
	if created == nil || created.Branch != agent.PrivateBranch(q.ID) {
		t.Errorf("first event %+v", made.First[0].Body)
	}

	q, ref := b.request("Fix the parser"), "v1"
	q.Model, q.Repos = &model.Ref{ID: "house"}, []Repository{{URL: "https://git.test/o/other", StartingRef: &ref}}
	if made, err = b.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if a := made.Agent; a.Model != "house" || a.Repos[0].URL != "https://git.test/o/other" || a.Repos[0].StartingRef != "v1" || a.Repos[0].TeamBase {
		t.Errorf("the request's own choice is ignored: %+v", a)
	}

	q = b.request("Fix the parser")
	q.Repos = []Repository{} // the request wants none
	if made, err = b.Create(t.Context(), q); err != nil || len(made.Agent.Repos) != 0 {
		t.Errorf("repositories %+v, %v", made.Agent.Repos, err)
	}
}

// TestCreateTwice checks that a repeated request returns the first agent, even when
// a quota is reached, and that a different request for the same id fails.
func TestCreateTwice(t *testing.T) {
	b := newBench(t)
	q := b.request("Fix the parser")
	q.Repeatable = true
	first, err := b.Create(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	b.Quotas = Quotas{Agents: 1}
	again, err := b.Create(t.Context(), q)
	if err != nil || again.Agent.CreatedAt != first.Agent.CreatedAt || again.Run.ID != first.Run.ID {
		t.Errorf("the repeat returns %+v, %v", again, err)
	}
	b.Quotas = Quotas{}
	for name, tt := range map[string]struct {
		change func(*Request)
		code   string
	}{
		"another prompt":          {func(q *Request) { q.Prompt.Text = "Fix the lexer" }, "idempotency_key_reused"},
		"another user":            {func(q *Request) { q.By.UserID++ }, "agent_id_conflict"},
		"another run":             {func(q *Request) { q.RunID = agent.NewRunID() }, "agent_id_conflict"},
		"an id that is not a key": {func(q *Request) { q.Repeatable = false }, "agent_id_conflict"},
	} {
		other := q
		tt.change(&other)
		if _, err := b.Create(t.Context(), other); fault.Of(err).Code != tt.code {
			t.Errorf("%s: %v, want %s", name, err, tt.code)
		}
	}
}

// TestForkCreatesAllOrNone checks that if one fork cannot be created, those
// created before it are removed and none is started.
func TestForkCreatesAllOrNone(t *testing.T) {
	b := newBench(t)
	of, other := b.create("Fix the parser"), b.create("Fix the lexer")
	b.woken = nil
	var restricted []string
	b.Inherit = func(_ context.Context, from, to string) error {
		restricted = append(restricted, from+" "+to)
		return nil
	}
	q := ForkRequest{By: b.by, Agent: of}
	for _, id := range []string{agent.NewID(), other.ID} { // the second id is taken
		q.Forks = append(q.Forks, ForkPrompt{ID: id, RunID: agent.NewRunID(), Prompt: Prompt{Text: "Go on"}})
	}
	if _, err := b.Fork(t.Context(), q); err == nil {
		t.Fatal("the fork succeeds with the id of another agent")
	}
	if _, err := b.store.Agent(t.Context(), q.Forks[0].ID); err == nil || len(b.woken) != 0 {
		t.Errorf("the first fork: %v; woken %v", err, b.woken)
	}
	if _, err := b.store.Agent(t.Context(), other.ID); err != nil {
		t.Errorf("the agent that has the id: %v", err)
	}

	if want := []string{of.ID + " " + q.Forks[0].ID}; !slices.Equal(restricted, want) {
		t.Errorf("restricted %v, want %v", restricted, want)
	}

	q.Forks[1].ID = agent.NewID()
	made, err := b.Fork(t.Context(), q)
	if err != nil || len(made.Forks) != 2 || len(b.woken) != 2 {
		t.Fatalf("forks %+v, woken %v, %v", made, b.woken, err)
	}
	for _, f := range made.Forks {
		if f.Agent.ForkedFrom != of.ID || f.Run.Status.Ended() {
			t.Errorf("fork %+v, run %+v", f.Agent, f.Run)
		}
	}
}
