package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/secret"
)

var secretTests = []test{
	{"SecretIsFoundWithItsOwner", testSecret},
	{"SecretIsReplaced", testSecretReplaced},
	{"NamesThatDifferInCaseAreOne", testSecretCase},
	{"SecretsAreLimited", testSecretLimit},
	{"SecretIsDeleted", testSecretDeleted},
	{"SecretIsResealed", testReseal},
	{"SecretsAreReadInPieces", testSecretsAfter},
	{"AgentsSecretsComeAndGoWithIt", testAgentSecrets},
	{"ExternalIDIsMadeOnce", testExternalID},
}

func sealed(owner secret.Owner, name string) secret.Sealed {
	return secret.Sealed{
		Secret: secret.Secret{
			ID: secret.NewID(), Name: name, Type: secret.Runtime, Owner: owner, Repos: []string{"example.com/app"},
			CreatedAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		},
		Keeper: "local", Key: []byte("key of " + name), Box: []byte{0, 1, 0xff},
	}
}

func mustPut(t *testing.T, s Store, one secret.Sealed) {
	t.Helper()
	if err := s.PutSecret(t.Context(), one); err != nil {
		t.Fatal(err)
	}
}

func wantSecrets(t *testing.T, s Store, owner secret.Owner, want ...secret.Sealed) {
	t.Helper()
	got, err := s.Secrets(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.Transformer("", func(all []secret.Sealed) []secret.Sealed { return append([]secret.Sealed{}, all...) })); diff != "" {
		t.Errorf("secrets of %v differ (-want +got):\n%s", owner, diff)
	}
}

func testSecret(t *testing.T, s Store) {
	ada, env := secret.Owner{Kind: secret.OfPerson, ID: "1"}, secret.Owner{Kind: secret.OfEnvironment, ID: "1"}
	b, a, other, shared := sealed(ada, "B"), sealed(ada, "a"), sealed(env, "B"), sealed(secret.TheTeam, "B")
	for _, one := range []secret.Sealed{b, a, other, shared} {
		mustPut(t, s, one)
	}
	wantSecrets(t, s, ada, a, b)
	wantSecrets(t, s, env, other)
	wantSecrets(t, s, secret.TheTeam, shared)
	wantSecrets(t, s, secret.Owner{Kind: secret.OfPerson, ID: "2"})
}

func testSecretReplaced(t *testing.T, s Store) {
	old, fresh := sealed(secret.TheTeam, "A"), sealed(secret.TheTeam, "A")
	mustPut(t, s, old)
	mustPut(t, s, fresh)
	wantSecrets(t, s, secret.TheTeam, fresh)
	wantError(t, "Reseal of what was replaced", s.Reseal(t.Context(), old), store.ErrNotFound)
}

func testSecretCase(t *testing.T, s Store) {
	old := sealed(secret.TheTeam, "Token")
	mustPut(t, s, old)
	wantError(t, "PutSecret", s.PutSecret(t.Context(), sealed(secret.TheTeam, "TOKEN")), store.ErrExists)
	wantSecrets(t, s, secret.TheTeam, old)
}

func testSecretLimit(t *testing.T, s Store) {
	for i := range secret.MaxPerOwner {
		mustPut(t, s, sealed(secret.TheTeam, fmt.Sprintf("S%d", i)))
	}
	wantError(t, "one more", s.PutSecret(t.Context(), sealed(secret.TheTeam, "MORE")), store.ErrTooMany)
	mustPut(t, s, sealed(secret.TheTeam, "S7")) // an existing secret can still be replaced
	mustPut(t, s, sealed(secret.Owner{Kind: secret.OfPerson, ID: "1"}, "MORE"))
}

func testSecretDeleted(t *testing.T, s Store) {
	mustPut(t, s, sealed(secret.TheTeam, "Token"))
	if err := s.DeleteSecret(t.Context(), secret.TheTeam, "TOKEN"); err != nil {
		t.Fatal(err)
	}
	wantError(t, "DeleteSecret again", s.DeleteSecret(t.Context(), secret.TheTeam, "Token"), store.ErrNotFound)
	wantSecrets(t, s, secret.TheTeam)
	mustPut(t, s, sealed(secret.TheTeam, "TOKEN"))
	env, other := secret.Owner{Kind: secret.OfEnvironment, ID: "1"}, sealed(secret.Owner{Kind: secret.OfEnvironment, ID: "2"}, "A")
	for _, one := range []secret.Sealed{sealed(env, "A"), sealed(env, "B"), other} {
		mustPut(t, s, one)
	}
	for range 2 {
		if err := s.DeleteSecrets(t.Context(), env); err != nil {
			t.Fatal(err)
		}
	}
	wantSecrets(t, s, env)
	wantSecrets(t, s, other.Owner, other)
}

func testReseal(t *testing.T, s Store) {
	one := sealed(secret.TheTeam, "A")
	mustPut(t, s, one)
	again := one
	again.Keeper, again.Key, again.Box = "vault", []byte("k"), []byte("b")
	again.Type = secret.Build // Reseal must ignore this field
	if err := s.Reseal(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	again.Type = one.Type
	wantSecrets(t, s, secret.TheTeam, again)
	wantError(t, "Reseal of nothing", s.Reseal(t.Context(), sealed(secret.TheTeam, "B")), store.ErrNotFound)
}

func testSecretsAfter(t *testing.T, s Store) {
	var want, got []string
	for i := range 7 {
		one := sealed(secret.Owner{Kind: secret.OfPerson, ID: fmt.Sprint(i)}, "A")
		mustPut(t, s, one)
		want = append(want, one.ID)
	}
	slices.Sort(want)
	for after := ""; ; {
		some, err := s.SecretsAfter(t.Context(), after, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			break
		}
		for _, one := range some {
			got = append(got, one.ID)
		}
		after = got[len(got)-1]
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

func testAgentSecrets(t *testing.T, s Store) {
	id, runID := agent.NewID(), agent.NewRunID()
	own := secret.Owner{Kind: secret.OfAgent, ID: id}
	forked := secret.Owner{Kind: secret.OfForked, ID: id}
	one, inherited := sealed(own, "A"), sealed(forked, "A")
	begin := store.Append{
		AgentID: id, IfHead: ptr(0), Secrets: []secret.Sealed{one, inherited},
		Events: []agent.Event{{Body: &agent.Created{Name: "x", UserID: 1}}, prompt(runID)},
	}
	mustAppend(t, s, begin)
	wantSecrets(t, s, own, one)
	again := begin
	again.Secrets = []secret.Sealed{sealed(own, "A"), sealed(own, "B")}
	_, err := s.Append(t.Context(), again)
	wantError(t, "the same agent again", err, store.ErrExists)
	wantSecrets(t, s, own, one)
	again.IfHead = nil
	again.Events = []agent.Event{text(runID, "x")}
	if _, err := s.Append(t.Context(), again); err == nil {
		t.Error("an agent that is there got secrets")
	}
	wantSecrets(t, s, own, one)
	team := sealed(secret.TheTeam, "A")
	mustPut(t, s, team)
	if err := s.DeleteAgent(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantSecrets(t, s, own)
	wantSecrets(t, s, forked)
	wantSecrets(t, s, secret.TheTeam, team)
}

func testExternalID(t *testing.T, s Store) {
	for _, tt := range []struct{ team, proposed, want string }{
		{"team", "one", "one"}, {"team", "two", "one"}, {"other", "two", "two"}, {"team", "three", "one"},
	} {
		if got, err := s.ExternalID(t.Context(), tt.team, tt.proposed); err != nil || got != tt.want {
			t.Errorf("ExternalID(%s, %s) = %s, %v; want %s", tt.team, tt.proposed, got, err, tt.want)
		}
	}
}
