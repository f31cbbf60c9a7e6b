package safe

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/vault/api"
	"gocloud.dev/secrets/hashivault"

	"aloft/internal/fault"
)

// transit simulates Vault's transit engine over HTTP: key versions, AES-GCM,
// tokens and errors.
type transit struct {
	token string
	mu    sync.Mutex
	keys  []cipher.AEAD // key versions, from 1
	down  bool
	asked []string // request bodies
}

func newTransit(t *testing.T) (*transit, Keeper) {
	t.Helper()
	v := &transit{token: "hvs.test-token"}
	v.rotate()
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	return v, dialTransit(t, server.URL, v.token)
}

func dialTransit(t *testing.T, url, token string) Keeper {
	t.Helper()
	client, err := hashivault.Dial(t.Context(), &hashivault.Config{Token: token, APIConfig: api.Config{Address: url}})
	if err != nil {
		t.Fatal(err)
	}
	client.SetMaxRetries(0)
	return remote{"hashivault://aloft", hashivault.OpenKeeper(client, "aloft", nil)}
}

func (v *transit) rotate() {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	aead, err := newAEAD(key)
	if err != nil {
		panic(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keys = append(v.keys, aead)
}

func (v *transit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fail := func(status int, words string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"errors":[%q]}`, words)
	}
	var in struct {
		Plaintext  []byte `json:"plaintext"`
		Ciphertext string `json:"ciphertext"`
	}
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	v.asked = append(v.asked, body.String())
	switch {
	case v.down:
		fail(503, "Vault is sealed")
	case r.Header.Get("X-Vault-Token") != v.token:
		fail(403, "permission denied")
	case r.Method != http.MethodPut && r.Method != http.MethodPost:
		fail(405, "unsupported operation")
	case json.Unmarshal(body.Bytes(), &in) != nil:
		fail(400, "failed to parse JSON input")
	case r.URL.Path == "/v1/transit/encrypt/aloft":
		aead := v.keys[len(v.keys)-1]
		nonce := make([]byte, aead.NonceSize())
		_, _ = rand.Read(nonce)
		text := base64.StdEncoding.EncodeToString(aead.Seal(nonce, nonce, in.Plaintext, nil))
		fmt.Fprintf(w, `{"data":{"ciphertext":"vault:v%d:%s"}}`, len(v.keys), text)
	case r.URL.Path == "/v1/transit/decrypt/aloft":
		var version int
		var text string
		if _, err := fmt.Sscanf(strings.ReplaceAll(in.Ciphertext, ":", " "), "vault v%d %s", &version, &text); err != nil || version < 1 || version > len(v.keys) {
			fail(400, "invalid ciphertext: no prefix")
			return
		}
		box, err := base64.StdEncoding.DecodeString(text)
		aead := v.keys[version-1]
		if err != nil || len(box) < aead.NonceSize() {
			fail(400, "invalid ciphertext")
			return
		}
		plain, err := aead.Open(nil, box[:aead.NonceSize()], box[aead.NonceSize():], nil)
		if err != nil {
			fail(400, "cipher: message authentication failed")
			return
		}
		fmt.Fprintf(w, `{"data":{"plaintext":%q}}`, base64.StdEncoding.EncodeToString(plain))
	default:
		fail(404, "no handler for route")
	}
}

func newKeyFile(t *testing.T) *keyFile {
	t.Helper()
	k, err := openKeyFile(filepath.Join(t.TempDir(), "secrets.key"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestKeepers runs the same tests on every keeper.
func TestKeepers(t *testing.T) {
	for name, open := range map[string]func(*testing.T) (k Keeper, rotate func()){
		"local": func(t *testing.T) (Keeper, func()) {
			k := newKeyFile(t)
			return k, func() {
				if err := k.Renew(); err != nil {
					t.Fatal(err)
				}
			}
		},
		"vault": func(t *testing.T) (Keeper, func()) { v, k := newTransit(t); return k, v.rotate },
	} {
		t.Run(name, func(t *testing.T) {
			k, rotate := open(t)
			key := []byte("0123456789abcdef0123456789abcdef")
			wrapped, by, err := k.Wrap(t.Context(), key)
			if err != nil || by == "" {
				t.Fatalf("Wrap: by %q, %v", by, err)
			}
			again, _, err := k.Wrap(t.Context(), key)
			if err != nil || bytes.Equal(wrapped, again) {
				t.Errorf("wrapping twice gives the same, or %v", err)
			}
			if bytes.Contains(wrapped, key) || bytes.Contains(wrapped, []byte(base64.StdEncoding.EncodeToString(key))) {
				t.Error("what is wrapped shows the key")
			}
			rotate()
			if got, err := k.Unwrap(t.Context(), by, wrapped); err != nil || !bytes.Equal(got, key) {
				t.Errorf("Unwrap after a rotation: %q, %v", got, err)
			}
			for i := range wrapped { // flip each bit in turn
				broken := bytes.Clone(wrapped)
				broken[i] ^= 1
				if got, err := k.Unwrap(t.Context(), by, broken); err == nil && !bytes.Equal(got, key) {
					t.Fatalf("a change at %d gives another key", i)
				}
			}
			if _, err := k.Unwrap(t.Context(), by, nil); err == nil {
				t.Error("nothing is unwrapped")
			}
			if _, err := k.Unwrap(t.Context(), "somebody://else", wrapped); err == nil {
				t.Error("what another has wrapped is unwrapped")
			}
		})
	}
}

func TestKeeperThatIsAway(t *testing.T) {
	v, k := newTransit(t)
	wrapped, by, err := k.Wrap(t.Context(), make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	v.mu.Lock()
	v.down = true
	v.mu.Unlock()
	_, err = k.Unwrap(t.Context(), by, wrapped)
	if f := fault.Of(err); f.Code != "keeper_unavailable" || f.Advice == "" || strings.Contains(f.Message, v.token) {
		t.Errorf("a sealed vault: %v", err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":{}}`) }))
	defer server.Close()
	if _, err := dialTransit(t, server.URL, "t").Unwrap(t.Context(), "hashivault://aloft", wrapped); !fault.Is(err, fault.KindUnavailable) {
		t.Errorf("a server that is no vault: %v", err)
	}
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	defer hangs.CloseClientConnections()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dialTransit(t, hangs.URL, "t").Unwrap(ctx, "hashivault://aloft", wrapped); !fault.Is(err, fault.KindUnavailable) {
		t.Errorf("a server that hangs: %v", err)
	}
}

func TestKeyFile(t *testing.T) {
	k := newKeyFile(t)
	info, err := os.Stat(k.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	wrapped, by, err := k.Wrap(t.Context(), make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	again, err := openKeyFile(k.path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Unwrap(t.Context(), by, wrapped); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if err := k.Renew(); err != nil { // simulate another process
		t.Fatal(err)
	}
	fresh, by2, err := k.Wrap(t.Context(), make([]byte, 32))
	if err != nil || by2 == by {
		t.Fatalf("renewed: %s, %v", by2, err)
	}
	if _, err := again.Unwrap(t.Context(), by2, fresh); err != nil {
		t.Errorf("a key that came since: %v", err)
	}
	for range 2 {
		if err := k.Renew(); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Forget(map[string]bool{by2: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Unwrap(t.Context(), by, wrapped); err == nil {
		t.Error("a key that was forgotten unwraps")
	}
	if _, err := k.Unwrap(t.Context(), by2, fresh); err != nil {
		t.Errorf("a key that is in use was forgotten: %v", err)
	}
	for words, spoil := range map[string]func(path string) error{
		"chmod 600": func(p string) error { return os.Chmod(p, 0o644) },
		"no key":    func(p string) error { return os.WriteFile(p, []byte("# nothing\n"), 0o600) },
		":2: not":   func(p string) error { return os.WriteFile(p, []byte("#\nnonsense\n"), 0o600) },
	} {
		k := newKeyFile(t)
		if err := spoil(k.path); err != nil {
			t.Fatal(err)
		}
		if _, err := openKeyFile(k.path); err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%s: %v", words, err)
		}
	}
}

func TestKeeperURLs(t *testing.T) {
	for _, u := range []string{"", "key", "base64key://", "s3://key", "hashivault://user:pass@key", "%"} {
		if k, err := OpenKeeper(t.Context(), u, ""); err == nil || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%q: %v, %v", u, k, err)
		}
	}
}
