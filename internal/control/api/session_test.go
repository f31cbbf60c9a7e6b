package api

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"

	"github.com/coder/websocket"
)

// keyOfAnn creates a key that the test may delete, and returns its id.
func (h *house) keyOfAnn() string {
	h.t.Helper()
	k, err := h.store.AddKey(h.t.Context(), account.APIKey{Name: "spare", UserID: 1, Hash: account.HashKey(account.NewKey())})
	if err != nil {
		h.t.Fatal(err)
	}
	return strconv.FormatInt(k.ID, 10)
}

// passkeyOfAnn creates a passkey that the test may remove, and returns its id.
func (h *house) passkeyOfAnn() string {
	h.t.Helper()
	if err := h.store.PutPasskey(h.t.Context(), account.Passkey{ID: []byte("spare"), UserID: 1, Credential: []byte("{}")}); err != nil {
		h.t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte("spare"))
}

// linkOf creates a sign-in link for the user as an admin, and returns the
// link's fragment.
func (h *house) linkOf(userID string) string {
	h.t.Helper()
	url := h.want(h.call("POST", "/v1/members/"+userID+"/link", ""), 201).text(h.t, "url")
	at, token, ok := strings.Cut(url, "#link=")
	if !ok || at != "http://aloft.test/sign-in" {
		h.t.Fatalf("the link is %s", url)
	}
	return token
}

// enter signs in and returns the value of the Cookie header.
func (h *house) enter(body string) string {
	h.t.Helper()
	a := h.want(h.callAs("", "POST", "/v1/session", body), 201)
	c, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	if err != nil || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.Name != "aloft_session" {
		h.t.Fatalf("cookie %+v, %v", c, err)
	}
	return c.Name + "=" + c.Value
}

const (
	annsPassword = `{"email":"anns@example.com","password":"a horse, a battery"}`
	home         = "http://aloft.test"
)

func TestSession(t *testing.T) {
	h := newHouse(t)
	if a := h.want(h.callAs("", "GET", "/v1/session", ""), 200); a.get(t, "signedIn") != false {
		t.Errorf("nobody: %s", a.body)
	}
	h.want(h.callAs("", "POST", "/v1/session", annsPassword), 401)
	h.want(h.callAs("", "POST", "/v1/session", `{}`), 400)
	sub := h.want(h.call("POST", "/v1/sub-tokens", `{"forUserId":2}`), 200).text(t, "accessToken")
	for _, bad := range []string{"aloft_wrong", sub} {
		h.want(h.callAs("", "POST", "/v1/session", `{"key":"`+bad+`"}`), 401)
	}
	h.want(h.callAs("", "DELETE", "/v1/session", "", "Cookie", h.enter(`{"key":"`+bensKey+`"}`), "Origin", home), 204)
	token := h.linkOf("1")
	cookie := h.enter(`{"link":"` + token + `"}`)
	h.want(h.callAs("", "POST", "/v1/session", `{"link":"`+token+`"}`), 401)
	a := h.want(h.callAs("", "GET", "/v1/session", "", "Cookie", cookie), 200)
	if a.get(t, "signedIn") != true || a.text(t, "user.email") != "anns@example.com" || a.text(t, "user.role") != "owner" || a.get(t, "password") != false {
		t.Errorf("signed in: %s", a.body)
	}
	from := []string{"Cookie", cookie, "Origin", home}
	h.want(h.callAs("", "PUT", "/v1/me/password", `{"password":"short"}`, from...), 400)
	h.want(h.callAs("", "PUT", "/v1/me/password", `{"password":"a horse, a battery"}`, from...), 204)
	if a := h.want(h.callAs("", "GET", "/v1/session", "", "Cookie", cookie), 200); a.get(t, "password") != true {
		t.Errorf("with a password: %s", a.body)
	}
	second := h.enter(annsPassword)
	keys := h.want(h.callAs("", "GET", "/v1/me/keys", "", "Cookie", second), 200)
	if items := keys.get(t, "items").([]any); len(items) != 3 || items[0].(map[string]any)["current"] != true || items[0].(map[string]any)["kind"] != "session" {
		t.Errorf("keys: %s", keys.body)
	}
	h.want(h.callAs("", "POST", "/v1/agents", task, from...), 201)
	h.want(h.callAs("", "DELETE", "/v1/session", "", from...), 204)
	h.want(h.callAs("", "GET", "/v1/agents", "", "Cookie", cookie), 401)
	h.want(h.callAs("", "GET", "/v1/agents", "", "Cookie", second), 200)
	h.want(h.callAs("", "GET", "/v1/agents", "", "Cookie", "aloft_session="+annsKey), 401) // an API key is not a session
	h.want(h.call("DELETE", "/v1/session", ""), 400)
	if s := h.log.String(); strings.Contains(s, token) || strings.Contains(s, "battery") || strings.Contains(s, strings.TrimPrefix(second, "aloft_session=")) {
		t.Errorf("a secret is in the log: %s", s)
	}
}

// The server rejects requests that another site's page makes a browser send,
// whatever their cookies are, unless the requests only read. The page cannot
// read the reply.
func TestCrossSite(t *testing.T) {
	h := newHouse(t)
	cookie := h.enter(`{"link":"` + h.linkOf("1") + `"}`)
	id, _ := h.begin()
	for _, tt := range []struct {
		name   string
		header []string
		want   int
	}{
		{"OurOwnPage", []string{"Origin", home}, 200},
		{"AtTheAddressTheBrowserUsed", []string{"Origin", h.http.URL}, 200},
		{"WithoutOriginButSame", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"AnotherSite", []string{"Origin", "https://evil.example.com"}, 403},
		{"AnotherSchemeOfOurs", []string{"Origin", "https://aloft.test"}, 403},
		{"APreview", []string{"Origin", "http://p-1.aloft.test", "Sec-Fetch-Site", "same-site"}, 403},
		{"Nowhere", []string{"Origin", "null"}, 403},
		{"NoWordOfIt", nil, 403},
		{"ATypedAddress", []string{"Sec-Fetch-Site", "none"}, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h.t = t
			header := append([]string{"Cookie", cookie}, tt.header...)
			h.want(h.callAs("", "POST", "/v1/agents/"+id+"/pause", "", header...), tt.want)
			h.want(h.callAs("", "GET", "/v1/agents/"+id, "", header...), 200)
			if fromPage := len(tt.header) > 0; fromPage {
				want := tt.want
				if want == 200 {
					want = 401
				}
				h.want(h.callAs("", "POST", "/v1/session", annsPassword, tt.header...), want)
			}
			opts := &websocket.DialOptions{HTTPHeader: http.Header{"Cookie": {cookie}}}
			for i := 0; i+1 < len(tt.header); i += 2 {
				opts.HTTPHeader.Set(tt.header[i], tt.header[i+1])
			}
			conn, res, err := websocket.Dial(t.Context(), strings.Replace(h.http.URL, "http", "ws", 1)+"/v1/agents/"+id+"/ports/80", opts)
			if err == nil {
				_ = conn.CloseNow()
			}
			if res == nil || (res.StatusCode == 403) != (tt.want == 403) {
				t.Errorf("a WebSocket: %v, %v", res, err)
			}
		})
	}
}

func TestSecureCookie(t *testing.T) {
	h := newHouse(t)
	h.api.PublicURL = func() string { return "https://aloft.test" }
	a := h.want(h.callAs("", "POST", "/v1/session", `{"link":"`+strings.TrimPrefix(h.want(h.call("POST", "/v1/members/1/link", ""), 201).text(t, "url"), "http://aloft.test/sign-in#link=")+`"}`), 201)
	if c := a.header.Get("Set-Cookie"); !strings.HasPrefix(c, "__Host-aloft=") || !strings.Contains(c, "; Secure") {
		t.Errorf("cookie %s", c)
	}
}

// A page on another host of the domain, such as a preview, can plant a cookie.
// Under https it cannot plant the state of somebody else's sign-in: browsers
// accept a cookie with the __Host- prefix only from this host.
func TestPlantedVisit(t *testing.T) {
	h := newHouse(t)
	h.api.PublicURL = func() string { return "https://aloft.test" }
	for _, name := range []string{"aloft_visit", "aloft_mcp_visit"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: name, Value: "planted"})
		if got := h.api.VisitState(r, name); got != "" {
			t.Errorf("the planted %s counts: %q", name, got)
		}
		c := h.api.VisitCookie(name, "/v1/x", "own")
		if c.Name != "__Host-"+name || c.Path != "/" || c.Domain != "" || !c.Secure || !c.HttpOnly {
			t.Errorf("cookie %s", c)
		}
		r.AddCookie(c)
		if got := h.api.VisitState(r, name); got != "own" {
			t.Errorf("beside a planted cookie: %q", got)
		}
	}
	// The sign-in callbacks remove the cookies under the names with which they
	// were set.
	for _, path := range []string{"/v1/session/provider/callback", "/v1/mcp-sign-in/callback"} {
		if c := h.want(h.callAs("", "GET", path, ""), 302).header.Get("Set-Cookie"); !strings.HasPrefix(c, "__Host-aloft_") {
			t.Errorf("%s: cookie %s", path, c)
		}
	}
}

// If browsers reach the server over https, anybody in the network can forge a
// page of the same host over plain http.
func TestPageWithoutTLS(t *testing.T) {
	for _, row := range []struct {
		public, host, origin string
		want                 bool
	}{
		{"https://aloft.test", "aloft.test", "https://aloft.test", true},
		{"https://aloft.test", "aloft.test", "http://aloft.test", false},
		{"https://aloft.test", "ALOFT.test", "http://Aloft.test", false},
		{"https://aloft.test", "127.0.0.1:8080", "https://aloft.test", true}, // a proxy changes the Host header
		{"https://aloft.test", "127.0.0.1:8080", "http://127.0.0.1:8080", true},
		{"http://127.0.0.1:8080", "localhost:8080", "http://localhost:8080", true},
		{"http://aloft.test", "aloft.test", "https://aloft.test", true}, // public_url does not name the proxy, which uses TLS
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.Host = row.host
		r.Header.Set("Origin", row.origin)
		if err := rest.SameSite(r, row.public); (err == nil) != row.want {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

func TestMembers(t *testing.T) {
	h := newHouse(t)
	made := h.want(h.callAs(adminsKey, "POST", "/v1/members", `{"email":"new@example.com","firstName":"New","role":"viewer"}`), 201)
	id := strconv.Itoa(int(made.get(t, "member.id").(float64)))
	h.want(h.callAs(adminsKey, "POST", "/v1/members", `{"email":"NEW@example.com"}`), 409)
	for _, bad := range []string{`{}`, `{"email":"x"}`, `{"email":"New <new2@example.com>"}`, `{"email":"n@example.com","role":"king"}`} {
		h.want(h.call("POST", "/v1/members", bad), 400)
	}
	for _, of := range []string{"admin", "owner"} {
		h.want(h.callAs(adminsKey, "POST", "/v1/members", `{"email":"n@example.com","role":"`+of+`"}`), 403)
	}
	h.want(h.callAs(adminsKey, "POST", "/v1/members/1/link", ""), 403) // user 1 is an owner
	h.want(h.callAs(adminsKey, "PATCH", "/v1/members/1", `{"disabled":true}`), 403)
	h.want(h.callAs(adminsKey, "PATCH", "/v1/members/"+id, `{"role":"admin"}`), 403)
	cookie := h.enter(`{"link":"` + strings.TrimPrefix(made.text(t, "link.url"), home+"/sign-in#link=") + `"}`)
	h.want(h.callAs("", "POST", "/v1/agents", task, "Cookie", cookie, "Origin", home), 403) // the user is a viewer
	h.want(h.callAs(adminsKey, "PATCH", "/v1/members/"+id, `{"role":"member"}`), 200)
	h.want(h.callAs("", "POST", "/v1/agents", task, "Cookie", cookie, "Origin", home), 201)
	h.want(h.callAs(adminsKey, "PATCH", "/v1/members/"+id, `{"disabled":true}`), 200)
	h.want(h.callAs("", "GET", "/v1/agents", "", "Cookie", cookie), 401)
	h.want(h.callAs(adminsKey, "PATCH", "/v1/members/99", `{}`), 404)
	h.want(h.call("PATCH", "/v1/members/1", `{"role":"member"}`), 409) // the last owner
	h.want(h.call("PATCH", "/v1/members/4", `{"role":"owner"}`), 200)
	h.want(h.call("PATCH", "/v1/members/1", `{"role":"member"}`), 200)
	h.want(h.call("PATCH", "/v1/members/4", `{"role":"viewer"}`), 403) // Ann is no longer an admin
	if a := h.want(h.callAs(bensKey, "GET", "/v1/members", ""), 200); len(a.get(t, "items").([]any)) != 5 {
		t.Errorf("members: %s", a.body)
	}
}

func TestKeys(t *testing.T) {
	h := newHouse(t)
	a := h.want(h.callAs(bensKey, "POST", "/v1/me/keys", `{"name":" deploy ","expiresInDays":30}`), 201)
	key := a.text(t, "key")
	if a.text(t, "name") != "deploy" || a.get(t, "expiresAt") == nil || !strings.HasPrefix(key, "aloft_") {
		t.Errorf("made %s", a.body)
	}
	h.want(h.callAs(key, "GET", "/v1/agents", ""), 200)
	list := h.want(h.callAs(key, "GET", "/v1/me/keys", ""), 200)
	if strings.Contains(string(list.body), key) || len(list.get(t, "items").([]any)) != 2 {
		t.Errorf("keys: %s", list.body)
	}
	for _, bad := range []string{`{}`, `{"name":" "}`, `{"name":"x","expiresInDays":-1}`, `{"name":"` + strings.Repeat("x", 101) + `"}`} {
		h.want(h.callAs(bensKey, "POST", "/v1/me/keys", bad), 400)
	}
	id := strconv.Itoa(int(a.get(t, "id").(float64)))
	h.want(h.call("DELETE", "/v1/me/keys/"+id, ""), 404) // the key belongs to Ben
	h.want(h.callAs(bensKey, "DELETE", "/v1/me/keys/"+id, ""), 204)
	h.want(h.callAs(key, "GET", "/v1/agents", ""), 401)
	sub := h.want(h.call("POST", "/v1/sub-tokens", `{"forUserId":2}`), 200).text(t, "accessToken")
	h.want(h.callAs(sub, "POST", "/v1/me/keys", `{"name":"x"}`), 403)
	h.want(h.callAs(sub, "PUT", "/v1/me/password", `{"password":"a horse, a battery"}`), 403)
}

func TestProfile(t *testing.T) {
	h := newHouse(t)
	h.want(h.callAs(bensKey, "PATCH", "/v1/me/profile", `{"email":"other@example.com"}`), 403)
	h.want(h.callAs(bensKey, "PATCH", "/v1/me/profile", `{"firstName":"`+strings.Repeat("x", 101)+`"}`), 400)
	if a := h.want(h.callAs(bensKey, "PATCH", "/v1/me/profile", `{"firstName":"Ben","lastName":"B"}`), 200); a.text(t, "lastName") != "B" {
		t.Errorf("profile: %s", a.body)
	}
	h.want(h.call("PATCH", "/v1/me/profile", `{"email":"bens@example.com"}`), 409)
}

func TestAudit(t *testing.T) {
	h := newHouse(t)
	h.want(h.callAs(bensKey, "POST", "/v1/members", `{}`), 403)
	h.want(h.call("PATCH", "/v1/members/2", `{"role":"viewer"}`), 200)
	h.want(h.callAs("", "POST", "/v1/session", `{"email":"eve@example.com","password":"x"}`), 401)
	id, _ := h.begin()
	h.want(h.call("DELETE", "/v1/agents/"+id, ""), 200)
	var got []string
	before := ""
	for {
		a := h.want(h.call("GET", "/v1/audit?limit=1"+before, ""), 200)
		var page struct {
			Items      []struct{ Action, Outcome, Target, User string }
			NextBefore int64
		}
		if err := json.Unmarshal(a.body, &page); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Items {
			got = append(got, e.User+"|"+e.Action+"|"+strings.ReplaceAll(e.Target, id, "ID")+"|"+e.Outcome)
		}
		if page.NextBefore == 0 {
			break
		}
		before = "&before=" + strconv.FormatInt(page.NextBefore, 10)
	}
	want := "A (anns@example.com)|deleteAgent|ID|ok, |signIn|eve@example.com|unauthorized, A (anns@example.com)|updateMember|2|ok, A (bens@example.com)|inviteMember||team_admin_required"
	if strings.Join(got, ", ") != want {
		t.Errorf("the log says\n%s, want\n%s", strings.Join(got, ", "), want)
	}
}

// Requests without authentication cannot fill the audit log: throttled and
// invalid requests are not recorded.
func TestAuditIsNotFlooded(t *testing.T) {
	h := newHouse(t)
	looked := 0
	for range 30 {
		if h.callAs("", "POST", "/v1/session", `{"key":"aloft_wrong"}`).status == 401 {
			looked++
		}
		if a := h.callAs("", "POST", "/v1/session", `{"passkey":{"ceremony":"none","response":{}}}`); a.status != 400 && a.status != 429 {
			t.Errorf("a passkey of no ceremony: %d %s", a.status, a.body)
		}
	}
	all, err := h.store.Audit(t.Context(), 0, 100)
	if err != nil || len(all) != looked || looked < 5 {
		t.Errorf("%d entries for %d tries that were looked at: %v", len(all), looked, err)
	}
}

func TestAddress(t *testing.T) {
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for _, tt := range []struct {
		remote, forwarded string
		proxies           []netip.Prefix
		want              string
	}{
		{"192.0.2.1:5", "", local, "192.0.2.1"},
		{"192.0.2.1:5", "203.0.113.9", local, "192.0.2.1"}, // the sender is not a trusted proxy
		{"127.0.0.1:5", "203.0.113.9", nil, "127.0.0.1"},   // the sender is a program on this host, and no proxy is trusted
		{"[::1]:5", "203.0.113.9", nil, "::1"},
		{"127.0.0.1:5", "203.0.113.9", local, "203.0.113.9"},
		{"[::ffff:127.0.0.1]:5", "203.0.113.9", local, "203.0.113.9"},
		{"[::1]:5", "198.51.100.1, 203.0.113.9", local, "203.0.113.9"}, // the client itself may have sent the first address
		{"[::1]:5", "198.51.100.1, 203.0.113.9, 127.0.0.1", local, "203.0.113.9"},
		{"127.0.0.1:5", "203.0.113.9, unknown", local, "127.0.0.1"},
		{"127.0.0.1:5", "", local, "127.0.0.1"},
	} {
		s := &rest.Shared{TrustedProxies: tt.proxies}
		r := &http.Request{RemoteAddr: tt.remote, Header: http.Header{}}
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		if got := s.AddressOf(r); got != tt.want {
			t.Errorf("from %s for %q: %s, want %s", tt.remote, tt.forwarded, got, tt.want)
		}
	}
}
