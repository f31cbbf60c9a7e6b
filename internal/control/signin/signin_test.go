package signin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/fault"

	"github.com/descope/virtualwebauthn"
)

func newDesk(t *testing.T, address string) (*Desk, *sqlite.Store) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	d, err := New(Config{Store: s, PublicURL: func() string { return address }})
	if err != nil {
		t.Fatal(err)
	}
	return d, s
}

// to returns a change function that replaces a user by u.
func to(u account.User) func(*account.User) error {
	return func(was *account.User) error { *was = u; return nil }
}

func addUser(t *testing.T, s *sqlite.Store, email string) account.User {
	t.Helper()
	u, err := s.AddUser(t.Context(), account.User{Email: email, FirstName: "Ada", Role: account.Owner})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// wantKind fails the test unless the error is a fault of the kind.
func wantKind(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: error is %v, want one of the kind %v", what, err, kind)
	}
}

const password = "a horse, a battery"

func TestLink(t *testing.T) {
	d, s := newDesk(t, "http://localhost:8080")
	u := addUser(t, s, "ada@example.com")
	link, expires, err := d.NewLink(t.Context(), u.ID)
	token, ok := strings.CutPrefix(link, "http://localhost:8080"+linkAt)
	if err != nil || !ok || time.Until(expires) < LinkTTL-time.Hour {
		t.Fatalf("NewLink: %v, %v", expires, err)
	}
	stolen, err := d.open(t.Context(), u.ID, "a thief's")
	if err != nil {
		t.Fatal(err)
	}
	session, err := d.WithLink(t.Context(), token, "192.0.2.1", strings.Repeat("Firefox", 99))
	if err != nil || session.UserID != u.ID || session.Kind != account.Session || session.Role != account.Owner || len(session.Name) > maxBrowser {
		t.Fatalf("session %+v, %v", session, err)
	}
	if k, err := s.Key(t.Context(), account.HashKey(session.Token)); err != nil || k != session.APIKey || k.ExpiresAt.Before(time.Now().Add(sessionTTL-time.Hour)) {
		t.Errorf("its key is %+v, %v", k, err)
	}
	if _, err := s.Key(t.Context(), account.HashKey(stolen.Token)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a session from before the link: %v", err)
	}
	_, err = d.WithLink(t.Context(), token, "192.0.2.1", "")
	wantKind(t, "the link again", err, fault.KindUnauthenticated)
}

func TestPassword(t *testing.T) {
	d, s := newDesk(t, "http://localhost:8080")
	u := addUser(t, s, "ada@example.com")
	who, err := d.open(t.Context(), u.ID, "one")
	if err != nil {
		t.Fatal(err)
	}
	other, err := d.open(t.Context(), u.ID, "two")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "short", strings.Repeat("x", maxPassword+1), "ADA@example.com"} {
		wantKind(t, "a bad password", d.SetPassword(t.Context(), who.APIKey, "", bad), fault.KindInvalid)
	}
	if err := d.SetPassword(t.Context(), who.APIKey, "", password); err != nil {
		t.Fatal(err)
	}
	if keys, err := s.Keys(t.Context(), u.ID); err != nil || len(keys) != 1 || keys[0].ID != who.ID {
		t.Errorf("with another password the sessions are %v, %v; %d was to end", keys, err, other.ID)
	}
	hash, err := s.Password(t.Context(), u.ID)
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=65536,t=3,p=4$") {
		t.Errorf("kept is %q, %v", hash, err)
	}
	if session, err := d.WithPassword(t.Context(), "Ada@example.com", password, "192.0.2.1", ""); err != nil || session.UserID != u.ID {
		t.Errorf("session %+v, %v", session, err)
	}
	wantKind(t, "another password without the current", d.SetPassword(t.Context(), who.APIKey, "wrong", password), fault.KindDenied)
	for _, try := range [][2]string{{"ada@example.com", "wrong"}, {"bob@example.com", password}, {"", ""}, {"ada@example.com", ""}} {
		_, err := d.WithPassword(t.Context(), try[0], try[1], "192.0.2.2", "")
		wantKind(t, try[0], err, fault.KindUnauthenticated)
	}
	u.Disabled = true
	addUser(t, s, "owner@example.com")
	if _, err := s.UpdateUser(t.Context(), u.ID, to(u)); err != nil {
		t.Fatal(err)
	}
	_, err = d.WithPassword(t.Context(), "ada@example.com", password, "192.0.2.1", "")
	wantKind(t, "a disabled user", err, fault.KindDenied)
	u.Disabled = false
	if _, err := s.UpdateUser(t.Context(), u.ID, to(u)); err != nil {
		t.Fatal(err)
	}
	link, _, err := d.NewLink(t.Context(), u.ID)
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(link, "#link=")
	if who, err = d.WithLink(t.Context(), token, "192.0.2.1", ""); err != nil {
		t.Fatal(err)
	}
	if err := d.SetPassword(t.Context(), who.APIKey, "", "forgotten and set anew"); err != nil {
		t.Errorf("after a link: %v", err)
	}
}

func TestNoPasswordWithoutAddress(t *testing.T) {
	d, s := newDesk(t, "http://localhost:8080")
	u := addUser(t, s, "")
	wantKind(t, "SetPassword", d.SetPassword(t.Context(), account.APIKey{UserID: u.ID}, "", password), fault.KindInvalid)
}

// After the fifth consecutive failure, further attempts are delayed. Each delay
// is twice as long as the previous one.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailures(time.Now)
		for range freeTries {
			if err := f.wait("ada", "192.0.2.1"); err != nil {
				t.Fatal(err)
			}
			f.add("ada", "192.0.2.1")
		}
		for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			wantKind(t, "at once", f.wait("x", " ADA "), fault.KindExhausted)
			wantKind(t, "from there", f.wait("x", "192.0.2.1"), fault.KindExhausted)
			if err := f.wait("eve", "192.0.2.2"); err != nil {
				t.Errorf("another waits: %v", err)
			}
			time.Sleep(wait - time.Millisecond)
			wantKind(t, "just before", f.wait("ada"), fault.KindExhausted)
			time.Sleep(time.Millisecond)
			if err := f.wait("ada"); err != nil {
				t.Errorf("after %v: %v", wait, err)
			}
			f.add("ada", "192.0.2.1")
		}
		for range 99 {
			f.add("ada")
		}
		time.Sleep(longestWait)
		if err := f.wait("ada"); err != nil {
			t.Errorf("after the longest wait: %v", err)
		}
		f.forget("ada")
		f.add("ada")
		if err := f.wait("ada"); err != nil {
			t.Errorf("after one failure: %v", err)
		}
	})
}

// A client with an IPv6 network does not get free attempts for each of its
// addresses.
func TestFailuresOfANetwork(t *testing.T) {
	f := newFailures(time.Now)
	for i := range freeTries {
		f.add(addressName(fmt.Sprintf("2001:db8:1:2::%x", i)))
	}
	wantKind(t, "another address of the network", f.wait(addressName("2001:db8:1:2:ffff::1")), fault.KindExhausted)
	for _, other := range []string{"2001:db8:1:3::1", "192.0.2.1", "::ffff:192.0.2.2", "not an address"} {
		if err := f.wait(addressName(other)); err != nil {
			t.Errorf("%s waits: %v", other, err)
		}
	}
	if addressName("::ffff:192.0.2.2") == addressName("::ffff:192.0.2.3") {
		t.Error("two IPv4 addresses have one name")
	}
}

// Many attempts with different names do not fill the memory, do not cause a search for
// each name, and do not reset the delays of other names.
func TestFloodOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailures(time.Now)
		for range freeTries + 8 {
			f.add("ada")
		}
		most, searches, before := 0, 0, 0
		for i := range maxFailures * 3 {
			f.add(fmt.Sprintf("address 192.0.2.%d", i))
			if len(f.of) <= before {
				searches++
			}
			before = len(f.of)
			most = max(most, before)
		}
		if most > maxFailures || searches > 20 {
			t.Errorf("%d names are kept after %d searches", most, searches)
		}
		wantKind(t, "after the flood", f.wait("ada"), fault.KindExhausted)
	})
}

// Parallel attempts have no advantage over sequential ones.
func TestTriesAtOnce(t *testing.T) {
	d, s := newDesk(t, "http://localhost:8080")
	addUser(t, s, "ada@example.com")
	const tries = 60
	var looked, held atomic.Int64
	var wg sync.WaitGroup
	for range tries {
		wg.Go(func() {
			_, err := d.WithPassword(t.Context(), "ada@example.com", "wrong", "192.0.2.1", "")
			switch {
			case fault.Is(err, fault.KindUnauthenticated):
				looked.Add(1)
			case fault.Is(err, fault.KindExhausted):
				held.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// The delays double, so even on a slow host only a few of them end during
	// the test.
	if n := looked.Load(); n < freeTries || n > tries/2 || n+held.Load() != tries {
		t.Errorf("%d of %d passwords were looked at, %d not", n, tries, held.Load())
	}
	// Other users have no delay, even from the same network address.
	for range freeTries {
		_, _ = d.WithPassword(t.Context(), "192.0.2.2", "wrong", "192.0.2.3", "")
	}
	_, err := d.WithKey(t.Context(), "wrong", "192.0.2.2", "")
	wantKind(t, "another", err, fault.KindUnauthenticated)
}

func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, other := newPending[int](), newPending[int]()
		name, err := p.put(1, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		late, _ := p.put(2, time.Minute)
		if _, ok := other.take(name); ok {
			t.Error("another opened it")
		}
		changed := []byte(name)
		changed[len(changed)/2] ^= 1
		for _, wrong := range []string{"", "x", string(changed), name + "A", name[:20], strings.Repeat("A", 1<<20)} {
			if _, ok := p.take(wrong); ok {
				t.Errorf("%.40q was taken", wrong)
			}
		}
		if what, ok := p.take(name); !ok || what != 1 {
			t.Errorf("take = %d, %v", what, ok)
		}
		if _, ok := p.take(name); ok {
			t.Error("it was taken twice")
		}
		for _, same := range []string{name + "\n", "\r\n" + name, name[:8] + "\n" + name[8:]} {
			if _, ok := p.take(same); ok {
				t.Errorf("it was taken twice, as %q", same)
			}
		}
		time.Sleep(time.Minute)
		if _, ok := p.take(late); ok {
			t.Error("it was taken late")
		}
	})
}

// TestNobodyIsLockedOut starts endless sign-ins. Others must still be able to
// sign in, and the server must store nothing.
func TestNobodyIsLockedOut(t *testing.T) {
	t.Parallel()
	p := newPending[int]()
	for range 20_000 {
		if _, err := p.put(0, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	name, err := p.put(1, time.Hour)
	if what, ok := p.take(name); err != nil || !ok || what != 1 {
		t.Errorf("take = %d, %v, %v", what, ok, err)
	}
	if len(p.taken) != 1 {
		t.Errorf("%d names are kept", len(p.taken))
	}
	// The same must hold for sign-ins that end with an invalid reply.
	for range maxTaken + 1000 {
		name, err := p.put(0, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := p.take(name); !ok {
			t.Fatal("a name that was put is not there")
		}
	}
	if len(p.taken) > maxTaken {
		t.Errorf("%d names are kept", len(p.taken))
	}
}

// device is an authenticator whose user always confirms.
type device struct {
	t    *testing.T
	site virtualwebauthn.RelyingParty
	auth virtualwebauthn.Authenticator
	key  virtualwebauthn.Credential
}

func (v *device) register(ctx context.Context, d *Desk, userID int64) (account.Passkey, error) {
	v.t.Helper()
	options, name, err := d.BeginPasskey(ctx, userID)
	if err != nil {
		return account.Passkey{}, err
	}
	parsed, err := virtualwebauthn.ParseAttestationOptions(string(options))
	if err != nil {
		v.t.Fatalf("%s: %v", options, err)
	}
	v.auth.Options.UserHandle = []byte(parsed.UserID)
	answer := virtualwebauthn.CreateAttestationResponse(v.site, v.auth, v.key, *parsed)
	return d.FinishPasskey(ctx, userID, name, "", []byte(answer))
}

func (v *device) signIn(ctx context.Context, d *Desk, name string, options []byte) (Session, error) {
	v.t.Helper()
	parsed, err := virtualwebauthn.ParseAssertionOptions(string(options))
	if err != nil {
		v.t.Fatalf("%s: %v", options, err)
	}
	v.key.Counter++
	return d.WithPasskey(ctx, name, []byte(virtualwebauthn.CreateAssertionResponse(v.site, v.auth, v.key, *parsed)), "192.0.2.1", "")
}

func TestPasskey(t *testing.T) {
	d, s := newDesk(t, "https://aloft.example.com")
	u, other := addUser(t, s, "ada@example.com"), addUser(t, s, "bob@example.com")
	v := device{
		t: t, site: virtualwebauthn.RelyingParty{ID: "aloft.example.com", Name: "Aloft", Origin: "https://aloft.example.com"},
		auth: virtualwebauthn.NewAuthenticator(), key: virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2),
	}
	made, err := v.register(t.Context(), d, u.ID)
	if err != nil || made.Name != "Passkey 1" {
		t.Fatalf("passkey %+v: %v", made, err)
	}
	begin := func() (string, []byte) {
		t.Helper()
		options, name, err := d.BeginSignIn()
		if err != nil {
			t.Fatal(err)
		}
		return name, options
	}
	name, options := begin()
	session, err := v.signIn(t.Context(), d, name, options)
	if err != nil || session.UserID != u.ID {
		t.Fatalf("session %+v, %v", session, err)
	}
	if keys, err := s.Passkeys(t.Context(), u.ID); err != nil || len(keys) != 1 || keys[0].UsedAt.IsZero() {
		t.Errorf("passkeys %+v, %v", keys, err)
	}
	_, err = v.signIn(t.Context(), d, name, options)
	wantKind(t, "the same challenge again", err, fault.KindInvalid)

	name, options = begin()
	copied := v
	copied.key.Counter = 0
	_, err = copied.signIn(t.Context(), d, name, options)
	wantKind(t, "a copy, whose counter is behind", err, fault.KindUnauthenticated)

	name, options = begin()
	elsewhere := v
	elsewhere.site.Origin = "https://evil.example.com"
	_, err = elsewhere.signIn(t.Context(), d, name, options)
	wantKind(t, "an answer to another site", err, fault.KindUnauthenticated)

	name, options = begin()
	forged := v
	forged.key = virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
	forged.key.ID = v.key.ID
	_, err = forged.signIn(t.Context(), d, name, options)
	wantKind(t, "another key by its name", err, fault.KindUnauthenticated)

	_, err = d.WithPasskey(t.Context(), "", []byte("{}"), "192.0.2.1", "")
	wantKind(t, "no challenge", err, fault.KindInvalid)
	name, _ = begin()
	_, err = d.WithPasskey(t.Context(), name, []byte("{"), "192.0.2.9", "")
	wantKind(t, "no answer", err, fault.KindUnauthenticated)
	_, name, err = d.BeginPasskey(t.Context(), u.ID)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.FinishPasskey(t.Context(), other.ID, name, "", []byte("{}"))
	wantKind(t, "another's ceremony", err, fault.KindInvalid)
	_, err = v.register(t.Context(), d, other.ID)
	wantKind(t, "another's passkey", err, fault.KindConflict)
}

func TestPasskeysNeedAName(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:8080": false, "https://127.0.0.1": false, "http://aloft.example.com": false,
		"https://aloft.example.com": true, "http://localhost:8080": true,
	} {
		d, _ := newDesk(t, address)
		if got := d.Methods().Passkey; got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}
