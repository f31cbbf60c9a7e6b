package team

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/review"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/policy/sandbox"
)

const day = 24 * time.Hour

func newPolicy(t *testing.T) (*Policy, *sqlite.Store) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &Policy{Store: s, Limit: allowance.Amount{Turns: 10}, Retention: 7 * day}, s
}

// A setting applies to agents that are created after the setting changes.
func TestSettingsOfTheTime(t *testing.T) {
	p, s := newPolicy(t)
	ctx, changed := t.Context(), time.Now()
	h, err := store.Settings(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	set := account.Settings{MachineDays: 2, NetworkMode: "network_settings_only", NetworkAllow: "a.test b.test", HideOutside: true, NoAutofix: true}
	set.Limit = allowance.Amount{Turns: 3}
	if err := store.PutSettings(ctx, s, h.With(set, changed)); err != nil {
		t.Fatal(err)
	}
	before, after := agent.Agent{CreatedAt: changed.Add(-time.Hour)}, agent.Agent{CreatedAt: changed.Add(time.Hour)}
	for _, tt := range []struct {
		name  string
		of    agent.Agent
		keep  time.Duration
		turns int64
		allow []string
		shown bool
	}{
		{"before", before, 7 * day, 10, nil, true},
		{"after", after, 2 * day, 3, []string{"a.test", "b.test"}, false},
	} {
		if keep, err := p.MachineRetention(ctx, tt.of); keep != tt.keep || err != nil {
			t.Errorf("%s: a machine is kept for %v, %v", tt.name, keep, err)
		}
		if limit, err := p.Limits(ctx, tt.of); limit.Turns != tt.turns || err != nil {
			t.Errorf("%s: limit %+v, %v", tt.name, limit, err)
		}
		if egress, err := p.Egress(ctx, tt.of.CreatedAt); !slices.Equal(egress.Allow, tt.allow) || err != nil {
			t.Errorf("%s: egress %+v, %v", tt.name, egress, err)
		}
		if shown, err := p.ShownOutside(ctx, tt.of, agent.Run{CreatedAt: tt.of.CreatedAt}); shown != tt.shown || err != nil {
			t.Errorf("%s: shown outside %v, %v", tt.name, shown, err)
		}
	}
	if fixes, err := p.FixesChecks(ctx); fixes || err != nil {
		t.Errorf("fixes checks: %v, %v", fixes, err)
	}
	private := true
	if shown, err := p.ShownOutside(ctx, before, agent.Run{Privacy: &private}); shown || err != nil {
		t.Errorf("a private run is shown outside: %v, %v", shown, err)
	}
}

func TestReviewersOf(t *testing.T) {
	p, s := newPolicy(t)
	u, err := s.AddUser(t.Context(), account.User{Email: "Ann@example.com", Role: account.Owner})
	if err != nil {
		t.Fatal(err)
	}
	p.Reviewers = map[string]map[string]string{"git.test": {"ann@example.com": "ann"}}
	for _, tt := range []struct {
		of   int64
		host string
		want []string
	}{{u.ID, "git.test", []string{"ann"}}, {u.ID, "other.test", nil}, {u.ID + 1, "git.test", nil}} {
		if got, err := p.ReviewersOf(t.Context(), agent.Agent{UserID: tt.of}, tt.host); !slices.Equal(got, tt.want) || err != nil {
			t.Errorf("user %d at %s: %q, %v", tt.of, tt.host, got, err)
		}
	}
}

// If a rule file cannot be read, or disables the sandbox, the strictest policy
// applies. Other errors are returned.
func TestSandbox(t *testing.T) {
	p, s := newPolicy(t)
	p.Sandboxed = []string{"hooks"}
	of := agent.Agent{ID: "bc-1", UserID: 1}
	if got, err := p.Sandbox(t.Context(), sandboxOf{}, of, "start"); got != nil || err != nil {
		t.Errorf("not sandboxed: %v, %v", got, err)
	}
	if got, err := p.Sandbox(t.Context(), sandboxOf{p: sandbox.Policy{Type: sandbox.InsecureNone}}, of, "hooks"); err != nil || got.Type != sandbox.Strictest().Type {
		t.Errorf("turned off: %+v, %v", got, err)
	}
	lost := errors.New("lost")
	if _, err := p.Sandbox(t.Context(), sandboxOf{err: lost}, of, "hooks"); !errors.Is(err, lost) {
		t.Errorf("error: %v", err)
	}
	if err := s.SetRule(t.Context(), store.TeamRules, "sandbox.json", "{"); err != nil {
		t.Fatal(err)
	}
	r := review.New(review.Config{Rules: s, Project: func(context.Context, agent.Agent, string, string) ([]byte, error) { return nil, nil }})
	if _, err := r.SandboxPolicy(t.Context(), of); !review.Unreadable(err) {
		t.Fatalf("the file can be read: %v", err)
	}
	if got, err := p.Sandbox(t.Context(), r, of, "hooks"); err != nil || got.Type != sandbox.Strictest().Type {
		t.Errorf("unreadable: %+v, %v", got, err)
	}
}

// sandboxOf is a reviewer with one answer.
type sandboxOf struct {
	p   sandbox.Policy
	err error
}

func (s sandboxOf) SandboxPolicy(context.Context, agent.Agent) (sandbox.Policy, error) {
	return s.p, s.err
}
