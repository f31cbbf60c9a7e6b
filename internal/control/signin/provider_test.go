package signin

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"testing"

	"aloft/internal/account"
	"aloft/internal/control/oauthtest"
	"aloft/internal/fault"
)

const (
	home   = "https://aloft.example.com"
	client = "aloft"
)

// newProvider starts a provider at which Aloft is registered, and returns its
// address.
func newProvider(t *testing.T) string {
	t.Helper()
	p := oauthtest.New(t)
	p.Client(client, "secret", home+CallbackPath)
	return p.URL
}

func visitAs(t *testing.T, address, name string) url.Values {
	t.Helper()
	return oauthtest.Visit(t, address, name, home+CallbackPath)
}

func TestProvider(t *testing.T) {
	d, s := newDesk(t, home)
	d.Provider = &Provider{Name: "Example", Issuer: newProvider(t), ClientID: client, ClientSecret: "secret"}
	if m := d.Methods(); m.Provider != "Example" {
		t.Errorf("methods %+v", m)
	}
	signIn := func(name string) (Session, error) {
		t.Helper()
		address, state, err := d.BeginVisit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		back := visitAs(t, address, name)
		return d.EndVisit(t.Context(), back.Get("code"), back.Get("state"), state, "")
	}
	_, err := signIn("ada")
	wantKind(t, "nobody's address", err, fault.KindDenied)
	u := addUser(t, s, "Ada@example.com")
	addUser(t, s, "eve@example.com")
	_, err = signIn("eve")
	wantKind(t, "an address that is not verified", err, fault.KindDenied)
	session, err := signIn("ada")
	if err != nil || session.UserID != u.ID {
		t.Fatalf("session %+v, %v", session, err)
	}
	u.Email = "other@example.com"
	if _, err := s.UpdateUser(t.Context(), u.ID, to(u)); err != nil {
		t.Fatal(err)
	}
	if session, err = signIn("ada"); err != nil || session.UserID != u.ID {
		t.Errorf("with another address here: %+v, %v", session, err)
	}
}

func TestProviderWelcomes(t *testing.T) {
	d, s := newDesk(t, home)
	d.Provider = &Provider{
		Name: "Example", Issuer: newProvider(t), ClientID: client, ClientSecret: "secret", Domains: []string{"Example.com"}, Role: account.Viewer,
	}
	address, state, err := d.BeginVisit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	back := visitAs(t, address, "ada")
	session, err := d.EndVisit(t.Context(), back.Get("code"), back.Get("state"), state, "")
	if err != nil {
		t.Fatal(err)
	}
	if u, err := s.User(t.Context(), session.UserID); err != nil || u.Email != "ada@example.com" || u.FirstName != "ADA" || u.Role != account.Viewer {
		t.Errorf("the new user is %+v, %v", u, err)
	}
}

// The callback must match the visit's browser, state and code.
func TestProviderForged(t *testing.T) {
	d, s := newDesk(t, home)
	issuer := newProvider(t)
	d.Provider = &Provider{Name: "Example", Issuer: issuer, ClientID: client, ClientSecret: "secret"}
	addUser(t, s, "ada@example.com")
	begin := func() (url.Values, string) {
		t.Helper()
		address, state, err := d.BeginVisit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return visitAs(t, address, "ada"), state
	}
	back, state := begin()
	_, err := d.EndVisit(t.Context(), back.Get("code"), state, "another browser's", "")
	wantKind(t, "in another browser", err, fault.KindInvalid)
	_, err = d.EndVisit(t.Context(), back.Get("code"), state, state, "")
	wantKind(t, "a second time", err, fault.KindInvalid)
	_, state = begin()
	_, err = d.EndVisit(t.Context(), "made up", state, state, "")
	wantKind(t, "a code that the provider did not give", err, fault.KindUnauthenticated)
	theirs, _ := begin()
	_, state = begin()
	_, err = d.EndVisit(t.Context(), theirs.Get("code"), state, state, "")
	wantKind(t, "a code of another visit", err, fault.KindUnauthenticated)
	d.Provider = &Provider{Name: "Example", Issuer: issuer + "/nowhere", ClientID: client}
	_, _, err = d.BeginVisit(t.Context())
	wantKind(t, "a provider that is away", err, fault.KindUnavailable)
}

// A provider whose reply swells when it is decompressed takes little memory of the
// server.
func TestProviderSwells(t *testing.T) {
	const size = 64 << 20
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range size >> 20 {
		if _, err := z.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	}))
	t.Cleanup(server.Close)
	d, _ := newDesk(t, home)
	d.Provider = &Provider{Name: "Example", Issuer: server.URL, ClientID: client}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := d.BeginVisit(t.Context())
	runtime.ReadMemStats(&after)
	wantKind(t, "a document that swells", err, fault.KindUnavailable)
	if took := after.TotalAlloc - before.TotalAlloc; took > size/4 {
		t.Errorf("a document of %d bytes takes %d bytes", packed.Len(), took)
	}
	resp, err := d.Provider.client().Get(server.URL + "/keys")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); err == nil || n > maxProviderReply {
		t.Errorf("read %d bytes of the keys, %v", n, err)
	}
}
