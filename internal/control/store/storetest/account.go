package storetest

import (
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/account"
	"aloft/internal/control/store"
)

var accountTests = []test{
	{"KeysThatExpire", testExpiringKeys},
	{"UserByEmail", testUserByEmail},
	{"UserIsFoundAgain", testUser},
	{"KeyIsFoundByItsHash", testKey},
	{"KeysAreCounted", testCountKeys},
	{"KeyIsAddedOnce", testKeyOnce},
	{"AddressIsOneUsers", testAddress},
	{"UserIsChanged", testUpdateUser},
	{"SomebodyOwns", testLastOwner},
	{"KeysOfAUser", testKeysOfUser},
	{"Passwords", testPassword},
	{"Passkeys", testPasskeys},
	{"Identities", testIdentity},
	{"LinksAreGoodOnce", testLink},
	{"AuditIsReadBackwards", testAudit},
}

func addUser(t *testing.T, s Store) account.User {
	t.Helper()
	u, err := s.AddUser(t.Context(), account.User{Email: rand.Text() + "@example.com", FirstName: "Ada", LastName: "Lovelace", Role: account.Owner})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func testUser(t *testing.T, s Store) {
	u, v := addUser(t, s), addUser(t, s)
	if u.ID <= 0 || u.ID == v.ID {
		t.Errorf("ids are %d and %d", u.ID, v.ID)
	}
	got, err := s.User(t.Context(), u.ID)
	if err != nil || got != u {
		t.Errorf("User = %+v, %v; want %+v", got, err, u)
	}
	_, err = s.User(t.Context(), v.ID+1)
	wantError(t, "User", err, store.ErrNotFound)
}

func testKey(t *testing.T, s Store) {
	u := addUser(t, s)
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	k, err := s.AddKey(t.Context(), account.APIKey{Name: "admin", UserID: u.ID, Hash: account.HashKey("secret"), CreatedAt: at})
	if err != nil {
		t.Fatal(err)
	}
	if k.ID <= 0 || !k.CreatedAt.Equal(at) {
		t.Errorf("AddKey = %+v", k)
	}
	got, err := s.Key(t.Context(), account.HashKey("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(k, got); diff != "" {
		t.Errorf("key differs (-added +found):\n%s", diff)
	}
	_, err = s.Key(t.Context(), account.HashKey("wrong"))
	wantError(t, "Key", err, store.ErrNotFound)
}

func testCountKeys(t *testing.T, s Store) {
	u := addUser(t, s)
	for want := range 3 {
		n, err := s.CountKeys(t.Context())
		if err != nil || n != want {
			t.Errorf("CountKeys = %d, %v; want %d", n, err, want)
		}
		if _, err := s.AddKey(t.Context(), account.APIKey{UserID: u.ID, Hash: account.HashKey(account.NewKey())}); err != nil {
			t.Fatal(err)
		}
	}
}

func testKeyOnce(t *testing.T, s Store) {
	u := addUser(t, s)
	k := account.APIKey{UserID: u.ID, Hash: account.HashKey("secret")}
	if _, err := s.AddKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	_, err := s.AddKey(t.Context(), k)
	wantError(t, "AddKey", err, store.ErrExists)
	_, err = s.AddKey(t.Context(), account.APIKey{UserID: u.ID + 1, Hash: account.HashKey("other")})
	wantError(t, "AddKey of nobody", err, store.ErrNotFound)
}

func testExpiringKeys(t *testing.T, s Store) {
	u, err := s.AddUser(t.Context(), account.User{Email: "a@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	add := func(name string, expires time.Time) account.APIKey {
		t.Helper()
		k, err := s.AddKey(t.Context(), account.APIKey{Name: name, UserID: u.ID, Hash: account.HashKey(name), ExpiresAt: expires})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	forever := add("forever", time.Time{})
	add("old", time.Now().Add(-time.Hour))
	soon := add("soon", time.Now().Add(time.Hour)) // adding a key deletes expired keys
	for _, want := range []account.APIKey{forever, soon} {
		if got, err := s.Key(t.Context(), want.Hash); err != nil || got != want {
			t.Errorf("key %v, %v; want %v", got, err, want)
		}
	}
	if k, err := s.Key(t.Context(), account.HashKey("old")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a key that has expired: %v, %v", k, err)
	}
}

func testUserByEmail(t *testing.T, s Store) {
	u, err := s.AddUser(t.Context(), account.User{Email: "Ada@example.com", FirstName: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.UserByEmail(t.Context(), "ada@Example.com"); err != nil || got != u {
		t.Errorf("user %v, %v", got, err)
	}
	if _, err := s.UserByEmail(t.Context(), "%"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
}

func testAddress(t *testing.T, s Store) {
	u, v := addUser(t, s), addUser(t, s)
	_, err := s.AddUser(t.Context(), account.User{Email: strings.ToUpper(u.Email)})
	wantError(t, "AddUser", err, store.ErrExists)
	v.Email = strings.ToUpper(u.Email)
	wantError(t, "UpdateUser", update(t, s, v), store.ErrExists)
	for range 2 { // an empty address belongs to nobody
		if u, err := s.AddUser(t.Context(), account.User{}); err != nil || u.Role != account.Member {
			t.Errorf("a user without an address: %+v, %v", u, err)
		}
	}
}

// update replaces a user.
func update(t *testing.T, s Store, u account.User) error {
	t.Helper()
	got, err := s.UpdateUser(t.Context(), u.ID, func(was *account.User) error { *was = u; return nil })
	if err == nil && got != u {
		t.Errorf("UpdateUser = %+v, want %+v", got, u)
	}
	return err
}

func testUpdateUser(t *testing.T, s Store) {
	u, v := addUser(t, s), addUser(t, s)
	k, err := s.AddKey(t.Context(), account.APIKey{UserID: v.ID, Hash: account.HashKey("v")})
	if err != nil || k.Role != account.Owner || k.Kind != account.Lasting {
		t.Fatalf("AddKey = %+v, %v", k, err)
	}
	v.Email, v.FirstName, v.LastName, v.Role, v.Disabled = "v@example.com", "V", "W", account.Viewer, true
	if err := update(t, s, v); err != nil {
		t.Fatal(err)
	}
	users, err := s.Users(t.Context())
	if diff := cmp.Diff([]account.User{u, v}, users); err != nil || diff != "" {
		t.Errorf("users (-want +got): %v\n%s", err, diff)
	}
	if k, err = s.Key(t.Context(), k.Hash); err != nil || k.Role != account.Viewer || !k.Disabled {
		t.Errorf("the key of a user who has changed: %+v, %v", k, err)
	}
	// Concurrent changes do not undo each other, and a rejected change has no
	// effect.
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := s.UpdateUser(t.Context(), u.ID, func(u *account.User) error { u.LastName += "x"; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	no := errors.New("no")
	_, err = s.UpdateUser(t.Context(), u.ID, func(u *account.User) error { u.LastName = "no"; return no })
	wantError(t, "UpdateUser", err, no)
	if got, err := s.User(t.Context(), u.ID); err != nil || got.LastName != u.LastName+strings.Repeat("x", 20) {
		t.Errorf("after 20 changes: %+v, %v", got, err)
	}
	v.ID, v.Email = v.ID+1, ""
	wantError(t, "UpdateUser", update(t, s, v), store.ErrNotFound)
}

func testLastOwner(t *testing.T, s Store) {
	u, v := addUser(t, s), addUser(t, s)
	u.Role = account.Admin
	if err := update(t, s, u); err != nil {
		t.Fatal(err)
	}
	before := v
	v.Disabled = true
	wantError(t, "UpdateUser", update(t, s, v), store.ErrLastOwner)
	if got, err := s.User(t.Context(), v.ID); err != nil || got != before {
		t.Errorf("the last owner is %+v, %v", got, err)
	}
}

func testKeysOfUser(t *testing.T, s Store) {
	u, v := addUser(t, s), addUser(t, s)
	add := func(userID int64, kind account.Kind, expires time.Time) account.APIKey {
		t.Helper()
		k, err := s.AddKey(t.Context(), account.APIKey{Kind: kind, UserID: userID, Hash: account.HashKey(rand.Text()), ExpiresAt: expires})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	key, theirs := add(u.ID, account.Lasting, time.Time{}), add(v.ID, account.Session, time.Now().Add(time.Hour))
	one, two := add(u.ID, account.Session, time.Now().Add(time.Hour)), add(u.ID, account.Session, time.Now().Add(time.Hour))
	add(u.ID, account.SubToken, time.Now().Add(-time.Second))
	want := func(userID int64, want ...account.APIKey) {
		t.Helper()
		got, err := s.Keys(t.Context(), userID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("keys (-want +got): %v\n%s", err, diff)
		}
	}
	want(u.ID, two, one, key)
	if err := s.RemoveKeys(t.Context(), u.ID, account.Session, one.ID); err != nil {
		t.Fatal(err)
	}
	want(u.ID, one, key)
	want(v.ID, theirs)
	wantError(t, "RemoveKey of another's", s.RemoveKey(t.Context(), u.ID, theirs.ID), store.ErrNotFound)
	if err := s.RemoveKey(t.Context(), v.ID, theirs.ID); err != nil {
		t.Fatal(err)
	}
	_, err := s.Key(t.Context(), theirs.Hash)
	wantError(t, "Key", err, store.ErrNotFound)
}

func testPassword(t *testing.T, s Store) {
	u, v := addUser(t, s), addUser(t, s)
	for _, hash := range []string{"one", "two", ""} {
		if err := s.SetPassword(t.Context(), u.ID, hash); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Password(t.Context(), u.ID); err != nil || got != hash {
			t.Errorf("password %q, %v; want %q", got, err, hash)
		}
		if can, err := s.CanSignIn(t.Context()); err != nil || can != (hash != "") {
			t.Errorf("with the password %q: CanSignIn = %v, %v", hash, can, err)
		}
	}
	if got, err := s.Password(t.Context(), v.ID); err != nil || got != "" {
		t.Errorf("another's password %q, %v", got, err)
	}
	wantError(t, "SetPassword of nobody", s.SetPassword(t.Context(), v.ID+1, "x"), store.ErrNotFound)
}

func testPasskeys(t *testing.T, s Store) {
	u, v := addUser(t, s), addUser(t, s)
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	p := account.Passkey{ID: []byte{1}, UserID: u.ID, Name: "key", Credential: []byte("{}"), CreatedAt: at}
	used := p
	used.Credential, used.UsedAt = []byte(`{"count":1}`), at.Add(time.Hour)
	for _, p := range []account.Passkey{p, used} {
		if err := s.PutPasskey(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		got, err := s.Passkeys(t.Context(), u.ID)
		if diff := cmp.Diff([]account.Passkey{p}, got); err != nil || diff != "" {
			t.Errorf("passkeys (-want +got): %v\n%s", err, diff)
		}
	}
	p.UserID = v.ID
	wantError(t, "PutPasskey of another's", s.PutPasskey(t.Context(), p), store.ErrExists)
	wantError(t, "RemovePasskey of another's", s.RemovePasskey(t.Context(), v.ID, p.ID), store.ErrNotFound)
	if err := s.RemovePasskey(t.Context(), u.ID, p.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Passkeys(t.Context(), u.ID); err != nil || len(got) != 0 {
		t.Errorf("passkeys %v, %v", got, err)
	}
}

func testIdentity(t *testing.T, s Store) {
	u := addUser(t, s)
	if err := s.AddIdentity(t.Context(), "https://a.test", "1", u.ID); err != nil {
		t.Fatal(err)
	}
	wantError(t, "AddIdentity again", s.AddIdentity(t.Context(), "https://a.test", "1", u.ID), store.ErrExists)
	if id, err := s.Identity(t.Context(), "https://a.test", "1"); err != nil || id != u.ID {
		t.Errorf("Identity = %d, %v", id, err)
	}
	_, err := s.Identity(t.Context(), "https://b.test", "1")
	wantError(t, "Identity elsewhere", err, store.ErrNotFound)
}

func testLink(t *testing.T, s Store) {
	u, v, now := addUser(t, s), addUser(t, s), time.Now()
	old, link, late, theirs := account.HashKey("old"), account.HashKey("link"), account.HashKey("late"), account.HashKey("theirs")
	for _, l := range []struct {
		hash    [32]byte
		userID  int64
		expires time.Time
	}{{old, u.ID, now.Add(time.Hour)}, {theirs, v.ID, now.Add(time.Hour)}, {link, u.ID, now.Add(time.Hour)}} {
		if err := s.AddLink(t.Context(), l.hash, l.userID, l.expires); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.TakeLink(t.Context(), old, now)
	wantError(t, "a link in whose place came another", err, store.ErrNotFound)
	for _, want := range []int64{u.ID, 0} {
		if id, err := s.TakeLink(t.Context(), link, now); id != want || (err == nil) != (want != 0) {
			t.Errorf("TakeLink = %d, %v; want %d", id, err, want)
		}
	}
	if id, err := s.TakeLink(t.Context(), theirs, now); err != nil || id != v.ID {
		t.Errorf("another's link: %d, %v", id, err)
	}
	if err := s.AddLink(t.Context(), late, u.ID, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{now.Add(time.Hour), now} { // an expired link stays invalid
		_, err = s.TakeLink(t.Context(), late, at)
		wantError(t, "a link that has expired", err, store.ErrNotFound)
	}
}

func testAudit(t *testing.T, s Store) {
	var want []account.Audit
	for i := range int64(3) {
		a := account.Audit{Time: time.Unix(i+1, 0).UTC(), UserID: i, Address: "127.0.0.1", Action: "putRule", Target: "team", Outcome: "ok"}
		if err := s.AddAudit(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		a.ID = i + 1
		want = append([]account.Audit{a}, want...)
	}
	got, err := s.Audit(t.Context(), 0, 9)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("audit (-want +got): %v\n%s", err, diff)
	}
	if got, err = s.Audit(t.Context(), 3, 1); err != nil || len(got) != 1 || got[0].ID != 2 {
		t.Errorf("the one before the third: %v, %v", got, err)
	}
}
