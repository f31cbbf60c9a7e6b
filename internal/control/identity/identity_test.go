package identity

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"aloft/internal/fault"
)

var work = Workload{
	AgentID: "bc-1", RunID: "run-1", OwnerID: "7", Email: "ann@example.com",
	Repo: "https://user:word@GitHub.com/org/name.git", Branch: "aloft/mend-it-c0de",
}

// served starts a server with an issuer's documents, and returns both.
func served(t *testing.T, path string) (*Issuer, string) {
	t.Helper()
	var i *Issuer
	routes := http.NewServeMux()
	for at, document := range map[string]func() ([]byte, error){
		DiscoveryPath: func() ([]byte, error) { return i.Discovery() },
		KeysPath:      func() ([]byte, error) { return i.Keys() },
	} {
		routes.HandleFunc("GET "+at, func(w http.ResponseWriter, _ *http.Request) {
			b, err := document()
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(b)
		})
	}
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	i, err := Open(path, func() string { return server.URL })
	if err != nil {
		t.Fatal(err)
	}
	return i, server.URL
}

func verify(ctx context.Context, t *testing.T, url, audience, token string) (*oidc.IDToken, error) {
	t.Helper()
	provider, err := oidc.NewProvider(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	return provider.Verifier(&oidc.Config{ClientID: audience}).Verify(ctx, token)
}

func TestATokenIsWhatVerifiersExpect(t *testing.T) {
	i, url := served(t, filepath.Join(t.TempDir(), "identity.pem"))
	token, expires, err := i.Token(work, "https://sts.example.com", "n-1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := verify(t.Context(), t, url, "https://sts.example.com", token)
	if err != nil {
		t.Fatal(err)
	}
	if got.Issuer != url || got.Nonce != "n-1" || got.Subject != "repo:github.com/org/name:agent:bc-1" ||
		!got.Expiry.Equal(expires) || got.Expiry.Sub(got.IssuedAt) != Lifetime {
		t.Errorf("token %+v", got)
	}
	var ours struct{ Agent, Run, Owner, Repo, Branch string }
	if err := got.Claims(&ours); err != nil {
		t.Fatal(err)
	}
	if ours.Agent != "bc-1" || ours.Run != "run-1" || ours.Owner != "7" || ours.Repo != "github.com/org/name" || ours.Branch != work.Branch {
		t.Errorf("claims %+v", ours)
	}
	if _, err := verify(t.Context(), t, url, "https://other.example.com", token); err == nil {
		t.Error("another audience takes it")
	}
	if strings.Contains(token, "word") {
		t.Error("the token holds a credential")
	}
}

func TestSubjectsCannotBeFeigned(t *testing.T) {
	for repo, want := range map[string]string{
		"":                                   "agent:bc-1",
		"https://git.test:8443/a/b":          "repo:git.test%3A8443/a/b:agent:bc-1",
		"https://evil.test/a:agent:bc-2":     "repo:evil.test/a%3Aagent%3Abc-2:agent:bc-1",
		"file:///github.com/org/name.git":    "repo:file%3A///github.com/org/name:agent:bc-1",
		"https://github.com/org/name/../x/y": "repo:github.com/org/x/y:agent:bc-1",
		"https://github.com/org/%2e%2e/x/y":  "repo:github.com/x/y:agent:bc-1",
		"git@github.com:org/name.git":        "repo:github.com/org/name:agent:bc-1",
		"ssh://git@github.com/org/name":      "repo:github.com/org/name:agent:bc-1",
	} {
		if got := (Workload{AgentID: "bc-1", Repo: repo}).subject(); got != want {
			t.Errorf("%q: subject %q, want %q", repo, got, want)
		}
	}
}

func TestWhatCannotBeSignedIsRefused(t *testing.T) {
	i, _ := served(t, filepath.Join(t.TempDir(), "identity.pem"))
	for _, bad := range [][2]string{{"", ""}, {strings.Repeat("a", maxAudience+1), ""}, {"a", strings.Repeat("n", maxNonce+1)}, {"\xff", ""}} {
		if _, _, err := i.Token(work, bad[0], bad[1]); !fault.Is(err, fault.KindInvalid) {
			t.Errorf("aud of %d bytes, nonce of %d: %v", len(bad[0]), len(bad[1]), err)
		}
	}
}

func TestKeysLastAndAreNobodyElses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.pem")
	i, url := served(t, path)
	token, _, err := i.Token(work, "a", "")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file of keys: %v, %v", info, err)
	}
	again, err := Open(path, i.base)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := i.Keys()
	b, _ := again.Keys()
	if string(a) != string(b) || strings.Count(string(a), `"kid"`) != 2 || strings.Contains(string(a), `"d"`) {
		t.Errorf("published\n%s\nand after a restart\n%s", a, b)
	}
	if _, err := verify(t.Context(), t, url, "a", token); err != nil {
		t.Error(err)
	}
}

// A verifier that has fetched the keys before a rotation accepts tokens signed
// after it, and vice versa.
func TestRotationIsNotNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.pem")
	i, url := served(t, path)
	before, _, err := i.Token(work, "a", "")
	if err != nil {
		t.Fatal(err)
	}
	old, err := i.Keys()
	if err != nil {
		t.Fatal(err)
	}
	if err := Rotate(path); err != nil { // simulate another process
		t.Fatal(err)
	}
	after, _, err := i.Token(work, "a", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"before": before, "after": after} {
		if _, err := verify(t.Context(), t, url, "a", token); err != nil {
			t.Errorf("the token from %s it: %v", name, err)
		}
	}
	keys, err := i.Keys()
	if err != nil || strings.Count(string(keys), `"kid"`) != 3 {
		t.Fatalf("keys %s, %v", keys, err)
	}
	k, err := i.ring.signing()
	if err != nil || !strings.Contains(string(old), k.id) {
		t.Errorf("the key that signs now was not published before: %v", err)
	}
}

func TestKeysAreRotatedByAge(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		i, err := Open(filepath.Join(dir, "identity.pem"), func() string { return "https://a.test" })
		if err != nil {
			t.Fatal(err)
		}
		first, _ := i.ring.signing()
		time.Sleep(rotateAfter + time.Second)
		second, err := i.ring.signing()
		if err != nil || second.id == first.id {
			t.Fatalf("after %s the same key signs: %v", rotateAfter, err)
		}
		if keys, _ := i.ring.keys(); len(keys) != 3 {
			t.Errorf("%d keys are published just after a rotation", len(keys))
		}
		time.Sleep(keepRetired)
		if keys, _ := i.ring.keys(); len(keys) != 2 || keys[0].id != second.id {
			t.Errorf("%d keys are published later", len(keys))
		}
	})
}

func TestManyProcessesAgreeOnTheFirstKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.pem")
	var all sync.WaitGroup
	ids := make([]string, 4)
	for n := range ids {
		all.Go(func() {
			i, err := Open(path, func() string { return "https://a.test" })
			if err != nil {
				t.Error(err)
				return
			}
			k, err := i.ring.signing()
			if err != nil {
				t.Error(err)
			}
			ids[n] = k.id
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("keys differ: %q", ids)
		}
	}
}

func TestAFileThatIsNoRingSaysWhatToDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.pem")
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, func() string { return "" }); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("error %v", err)
	}
}

func FuzzRing(f *testing.F) {
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nRetired: 1\n\nAAAA\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if list, err := parseRing(text); err == nil && len(list) < 2 {
			t.Errorf("a ring of %d keys", len(list))
		}
	})
}
