package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/secret"
)

func TestWhatWasASecretStaysOne(t *testing.T) {
	values := []string{"first-value", "second-value", "second-value", "first-value", "third-value"}
	var next int
	s := New(Config{
		Secret:  []byte("s"),
		Secrets: func(string) map[string]string { return map[string]string{"server": "the-servers-own"} },
		Variables: func(context.Context, agent.Agent) (secret.Set, time.Time, error) {
			var set secret.Set
			if next == len(values) {
				return set, time.Time{}, errors.New("the keeper is away")
			}
			set.Add("TOKEN", values[next], true)
			set.Add("MODE", "plain-to-see", false)
			next++
			return set, time.Time{}, nil
		},
	})
	a := agent.Agent{ID: "bc-1"}
	if err := s.know(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := s.know(t.Context(), a); err != nil || next != 1 {
		t.Errorf("what is known was asked for %d times, %v", next, err)
	}
	for next < len(values) {
		if _, _, err := s.variables(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	got := slices.Compact(slices.Sorted(maps.Values(s.SecretsOf("bc-1"))))
	if fmt.Sprint(got) != "[first-value second-value the-servers-own third-value]" {
		t.Errorf("secrets are %v", got)
	}
	r := s.redactor(&agent.State{Agent: a}, "m-1")
	if got := r.String("third-value second-value plain-to-see"); got != "[REDACTED] [REDACTED] plain-to-see" {
		t.Error(got)
	}
	if err := s.know(t.Context(), agent.Agent{ID: "bc-2"}); err == nil {
		t.Error("a machine whose secrets are not known may be listened to")
	}
	if len(s.SecretsOf("bc-2")) != 1 {
		t.Error("one agent's secrets are another's")
	}
	s.given.forget("bc-1")
	if len(s.SecretsOf("bc-1")) != 1 {
		t.Error("an agent that is gone is remembered")
	}
}

func TestRenewIn(t *testing.T) {
	now := time.Unix(1000, 0)
	for left, want := range map[time.Duration]time.Duration{
		time.Hour: 50 * time.Minute, 20 * time.Minute: 10 * time.Minute, 10 * time.Minute: 5 * time.Minute,
		2 * time.Second: time.Second, 0: time.Second, -time.Hour: time.Second,
	} {
		if got := renewIn(now.Add(left), now); got != want {
			t.Errorf("%v before the end: in %v, want %v", left, got, want)
		}
	}
}

func TestVariablesGivenAreFolded(t *testing.T) {
	given, made := &agent.VariablesGiven{Names: []string{"A", "B"}}, &agent.MachineMade{MachineID: "m-1"}
	if got := fold(&agent.Created{}, &agent.RunCreated{}, made, given).Given; fmt.Sprint(got) != "[A B]" {
		t.Error(got)
	}
	if got := fold(&agent.Created{}, &agent.RunCreated{}, made, given, made).Given; len(got) != 0 {
		t.Errorf("a new machine has %v", got)
	}
}

// Work redacts secrets that its agent gets after the work has begun.
func TestWorkRedactsLaterSecrets(t *testing.T) {
	s := New(Config{Secret: []byte("s"), Secrets: func(string) map[string]string { return nil }})
	w, state := &Work{fleet: s, agentID: "bc-1"}, &agent.State{Agent: agent.Agent{ID: "bc-1"}}
	for _, value := range []string{"the-first-value", "the-second-value"} {
		s.given.add("bc-1", map[string]string{"TOKEN": value})
		if got := w.Redactor(state).String(value); got != "[REDACTED]" {
			t.Errorf("%s is shown as %s", value, got)
		}
	}
}
