package safe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

type roles struct {
	asked []string
	err   error
}

func (r *roles) Assume(_ context.Context, arn, externalID, session string) (Credentials, error) {
	r.asked = append(r.asked, arn+" "+externalID+" "+session)
	return Credentials{"AKIA1", "made-secret-key", "made-session-token", time.Unix(9e9, 0)}, r.err
}

func openSafe(t *testing.T, dir string, keepers ...Keeper) (*Safe, *sqlite.Store) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if len(keepers) == 0 {
		k, err := openKeyFile(filepath.Join(dir, "secrets.key"))
		if err != nil {
			t.Fatal(err)
		}
		keepers = []Keeper{k}
	}
	s, err := New(Config{Store: st, Keepers: keepers})
	if err != nil {
		t.Fatal(err)
	}
	return s, st
}

const value = "s3cr3t-value-of-a-test"

var ada = secret.Owner{Kind: secret.OfPerson, ID: "1"}

func put(t *testing.T, s *Safe, owner secret.Owner, name, value string, repos ...string) secret.Secret {
	t.Helper()
	of, err := s.Put(t.Context(), secret.Secret{Name: name, Type: secret.Runtime, Owner: owner, Repos: repos}, value)
	if err != nil {
		t.Fatal(err)
	}
	return of
}

func wantVars(t *testing.T, s *Safe, a agent.Agent, want string) {
	t.Helper()
	set, _, err := s.ForAgent(t.Context(), a)
	if got := fmt.Sprint(set.Vars); err != nil || got != "map["+want+"]" {
		t.Errorf("the agent gets %s, %v; want %s", got, err, want)
	}
}

var app = agent.Agent{ID: "bc-1", UserID: 1, Options: agent.Options{Repos: []agent.Repo{{URL: "https://Example.com/team/app.git"}}}}

func TestWhatAnAgentGets(t *testing.T) {
	s, _ := openSafe(t, t.TempDir())
	s.Environment = func(context.Context, agent.Agent) (string, error) { return "env-1", nil }
	env := secret.Owner{Kind: secret.OfEnvironment, ID: "env-1"}
	put(t, s, secret.TheTeam, "A", "team")
	put(t, s, secret.TheTeam, "B", "team", "https://example.com/team/APP")
	put(t, s, secret.TheTeam, "C", "team", "https://example.com/team/other")
	put(t, s, ada, "A", "ada")
	put(t, s, secret.Owner{Kind: secret.OfPerson, ID: "2"}, "A", "ben")
	wantVars(t, s, app, "A:ada B:team")
	put(t, s, env, "A", "env")
	put(t, s, secret.Owner{Kind: secret.OfEnvironment, ID: "env-2"}, "A", "other")
	wantVars(t, s, app, "A:env B:team")
	set, err := s.ForBuild(t.Context(), "env-1", []string{"https://example.com/team/other"})
	if got := fmt.Sprint(set.Vars); err != nil || got != "map[A:env C:team]" {
		t.Errorf("the build gets %s, %v", got, err)
	}
	put(t, s, ada, "A", "ada again")
	if err := s.Delete(t.Context(), env, "a"); err != nil {
		t.Fatal(err)
	}
	wantVars(t, s, app, "A:ada again B:team")
	if err := s.Delete(t.Context(), env, "A"); !fault.Is(err, fault.KindNotFound) {
		t.Errorf("deleting what is gone: %v", err)
	}
	if _, err := s.Put(t.Context(), secret.Secret{Name: "a", Type: secret.Runtime, Owner: ada}, "v"); fault.Of(err).Code != "secret_name_conflict" {
		t.Errorf("a name in another case: %v", err)
	}
}

func TestListTellsNoValue(t *testing.T) {
	s, _ := openSafe(t, t.TempDir())
	first, second := put(t, s, ada, "A", value), put(t, s, secret.TheTeam, "B", value)
	list, err := s.List(t.Context(), ada, secret.TheTeam)
	if err != nil || len(list) != 2 || strings.Contains(fmt.Sprintf("%+v", list), value) {
		t.Errorf("%+v, %v", list, err)
	}
	if i, j := slices.IndexFunc(list, func(s secret.Secret) bool { return s.ID == first.ID }), slices.IndexFunc(list, func(s secret.Secret) bool { return s.ID == second.ID }); i < 0 || j < 0 {
		t.Errorf("one is missing: %v", list)
	}
}

// TestValueIsNotOnDisk checks that the store's files contain neither the value
// nor the keeper's key.
func TestValueIsNotOnDisk(t *testing.T) {
	dir := t.TempDir()
	s, st := openSafe(t, dir)
	put(t, s, ada, "A", value)
	sealed, err := s.SealEnvVars(t.Context(), app.ID, map[string]string{"B": value})
	if err != nil || len(sealed) != 1 {
		t.Fatal(err)
	}
	if err := st.PutSecret(t.Context(), sealed[0]); err != nil {
		t.Fatal(err)
	}
	wantVars(t, s, app, "A:"+value+" B:"+value)
	if _, err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "secrets.key"))
	if err != nil {
		t.Fatal(err)
	}
	longest := slices.MaxFunc(strings.Fields(string(key)), func(a, b string) int { return len(a) - len(b) }) // the key; other words are comments
	if len(longest) < 32 {
		t.Fatalf("the key's file holds no key: %d bytes", len(longest))
	}
	files, err := filepath.Glob(filepath.Join(dir, "aloft.db*"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(value)) || bytes.Contains(data, []byte(longest)) {
			t.Errorf("%s holds it", file)
		}
	}
}

// TestBoxIsBoundToItsRow checks that a value does not decrypt if it was moved
// to another row, or if its name or type has changed.
func TestBoxIsBoundToItsRow(t *testing.T) {
	s, _ := openSafe(t, t.TempDir())
	sealed, err := s.seal(t.Context(), secret.Secret{ID: "secv_1", Name: "A", Type: secret.Build, Owner: ada, Repos: []string{"h/a"}}, value)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.open(t.Context(), sealed); err != nil || got != value {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*secret.Sealed){
		"id": func(s *secret.Sealed) { s.ID = "secv_2" }, "name": func(s *secret.Sealed) { s.Name = "B" },
		"type": func(s *secret.Sealed) { s.Type = secret.Variable }, "owner": func(s *secret.Sealed) { s.Owner.ID = "2" },
		"kind": func(s *secret.Sealed) { s.Owner.Kind = secret.OfTeam }, "repos": func(s *secret.Sealed) { s.Repos = nil },
		"box": func(s *secret.Sealed) { s.Box[20] ^= 1 }, "short box": func(s *secret.Sealed) { s.Box = s.Box[:5] },
		"key": func(s *secret.Sealed) { s.Key[0] ^= 1 }, "keeper": func(s *secret.Sealed) { s.Keeper = "local:0" },
		"no keeper": func(s *secret.Sealed) { s.Keeper = "vault" },
	} {
		other := sealed
		other.Box, other.Key = bytes.Clone(sealed.Box), bytes.Clone(sealed.Key)
		change(&other)
		if got, err := s.open(t.Context(), other); err == nil || got != "" || strings.Contains(err.Error(), value) {
			t.Errorf("with another %s: %q, %v", name, got, err)
		}
	}
}

func TestRotate(t *testing.T) {
	dir := t.TempDir()
	s, st := openSafe(t, dir)
	const many = 250 // more secrets than one batch
	for i := range many {
		put(t, s, secret.Owner{Kind: secret.OfPerson, ID: fmt.Sprint(i)}, "A", value+fmt.Sprint(i))
	}
	before, err := st.SecretsAfter(t.Context(), "", many)
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Rotate(stopped); err == nil {
		t.Error("a rotation that was stopped says nothing of it")
	}
	for range 2 {
		if n, err := s.Rotate(t.Context()); err != nil || n != many {
			t.Fatalf("Rotate = %d, %v", n, err)
		}
	}
	s, err = New(Config{Store: st, Keepers: []Keeper{mustOpen(t, filepath.Join(dir, "secrets.key"))}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		wantVars(t, s, agent.Agent{UserID: int64(i)}, "A:"+value+fmt.Sprint(i))
	}
	if _, err := s.open(t.Context(), before[0]); err == nil {
		t.Error("what was sealed before two rotations still opens")
	}
}

func mustOpen(t *testing.T, path string) Keeper {
	t.Helper()
	k, err := OpenKeeper(t.Context(), LocalKeeper, path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestRotateToAnotherKeeper moves secrets to another keeper by rotation.
func TestRotateToAnotherKeeper(t *testing.T) {
	s, st := openSafe(t, t.TempDir())
	put(t, s, ada, "A", value)
	vault, remote := newTransit(t)
	s.Keepers = []Keeper{remote, s.Keepers[0]}
	if n, err := s.Rotate(t.Context()); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	s, err := New(Config{Store: st, Keepers: []Keeper{remote}})
	if err != nil {
		t.Fatal(err)
	}
	wantVars(t, s, app, "A:"+value)
	vault.mu.Lock()
	defer vault.mu.Unlock()
	if strings.Contains(strings.Join(vault.asked, " "), value) {
		t.Error("the keeper was told the value")
	}
}

func TestRole(t *testing.T) {
	s, _ := openSafe(t, t.TempDir())
	const arn = "arn:aws:iam::123456789012:role/agents"
	put(t, s, secret.TheTeam, secret.RoleVariable, arn)
	if _, _, err := s.ForAgent(t.Context(), app); fault.Of(err).Code != "aws_unavailable" {
		t.Errorf("without roles: %v", err)
	}
	r := &roles{}
	s.Roles = r
	put(t, s, ada, "aws_session_token", "ada's own")
	set, until, err := s.ForAgent(t.Context(), app)
	if err != nil || !until.Equal(time.Unix(9e9, 0)) {
		t.Fatal(until, err)
	}
	want := "map[AWS_ACCESS_KEY_ID:AKIA1 AWS_SECRET_ACCESS_KEY:made-secret-key AWS_SESSION_TOKEN:made-session-token " + secret.RoleVariable + ":" + arn + "]"
	if got := fmt.Sprint(set.Vars); got != want {
		t.Error(got)
	}
	if !slices.Contains(set.Hidden, "AWS_SESSION_TOKEN") || !slices.Contains(set.Hidden, "AWS_SECRET_ACCESS_KEY") {
		t.Error(set.Hidden)
	}
	id, err := s.ExternalID(t.Context())
	if err != nil || len(r.asked) != 1 || r.asked[0] != arn+" "+id+" bc-1" {
		t.Error(r.asked, id, err)
	}
	r.err = errors.New("no")
	if _, _, err := s.ForAgent(t.Context(), app); !errors.Is(err, r.err) {
		t.Error(err)
	}
}
