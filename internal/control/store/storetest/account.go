package storetest

import (
	"errors"
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
}

func addUser(t *testing.T, s Store) account.User {
	t.Helper()
	u, err := s.AddUser(t.Context(), account.User{Email: "ada@example.com", FirstName: "Ada", LastName: "Lovelace"})
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
	soon := add("soon", time.Now().Add(time.Hour)) // and what has expired is forgotten
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
