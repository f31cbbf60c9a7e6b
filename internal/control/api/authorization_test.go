package api

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
)

// Kinds of resources. The kind decides who can access a route; the route's role
// decides whether viewers may use it.
const (
	open    = "open"    // everyone, without a key
	signIn  = "signIn"  // everyone; the route authenticates the caller
	signed  = "signed"  // holders of a signed URL
	anyone  = "any"     // every user; the route shows their own resources
	keyed   = "key"     // one's own resource by name; other users have none of that name
	own     = "own"     // an agent: other members get "not found", admins have access
	private = "private" // like own, but admins get "not found" too
	admin   = "admin"   // the team's resources, for admins
	hook    = "hook"    // other services, whose requests are signed
)

// authorization lists every route with its kind of resource. A route that is
// missing here fails the test.
var authorization = map[string]string{
	"POST /v1/agents": anyone, "GET /v1/agents": anyone, "GET /v1/me": anyone, "GET /v1/models": anyone,
	"GET /v1/approvals": anyone, "GET /v1/agents/{id}/approvals": own, "POST /v1/agents/{id}/approvals/{approvalId}": own,
	"GET /v1/rules/{owner}/{name}": anyone, "PUT /v1/rules/{owner}/{name}": admin, // the team's rules
	"GET /v1/repositories": anyone, "POST /v1/sub-tokens": admin,
	"GET /v1/agents/{id}": own, "PATCH /v1/agents/{id}": own, "DELETE /v1/agents/{id}": own,
	"POST /v1/agents/{id}/archive": own, "POST /v1/agents/{id}/unarchive": own,
	"POST /v1/agents/{id}/pause": own, "POST /v1/agents/{id}/resume": own, "POST /v1/agents/{id}/fork": own, "GET /v1/agents/{id}/ssh": own,
	"POST /v1/agents/{id}/runs": own, "GET /v1/agents/{id}/runs": own,
	"GET /v1/agents/{id}/runs/{runId}": own, "GET /v1/agents/{id}/runs/{runId}/stream": own,
	"POST /v1/agents/{id}/runs/{runId}/cancel": own, "GET /v1/agents/{id}/usage": own,
	"GET /v1/agents/{id}/connections": own, "GET /v1/agents/{id}/ports": own, "GET /v1/agents/{id}/ports/{port}": own, "POST /v1/agents/{id}/ports/{port}/preview": own,
	"GET /v1/agents/{id}/diff": own, "GET /v1/agents/{id}/events": own, "GET /v1/agents/{id}/journal": own,
	"POST /v1/agents/{id}/pull-requests": own, "GET /v1/agents/{id}/pull-requests": own, "GET /v1/agents/{id}/pull-requests/proposal": own,
	"GET /v1/agents/{id}/terminals": own, "POST /v1/agents/{id}/terminals": own, "GET /v1/agents/{id}/pty": own,
	"GET /v1/agents/{id}/desktop": own, "GET /v1/agents/{id}/desktop/vnc": own,
	"GET /v1/agents/{id}/artifacts": own, "GET /v1/agents/{id}/artifacts/download": own, "GET /v1/agents/{id}/artifacts/contents": signed,
	"GET /v1/agents/{id}/environment": own, "POST /v1/agents/{id}/snapshots": own, "POST /v1/agents/{id}/environment/try": own, "POST /v1/agents/{id}/environment/commit": own,
	"POST /v1/agents/{id}/queue": own, "GET /v1/agents/{id}/queue": own, "DELETE /v1/agents/{id}/queue/{runId}": own,
	"POST /v1/agents/{id}/retry": own, "GET /v1/agents/{id}/events/{seq}/images/{n}": own,
	"GET /v1/agents/{id}/files": own, "DELETE /v1/agents/{id}/files": own, "GET /v1/agents/{id}/files/contents": own, "PUT /v1/agents/{id}/files/contents": own,
	"GET /v1/agents/{id}/files/archive": own, "POST /v1/agents/{id}/files/folders": own, "POST /v1/agents/{id}/files/move": own,
	"GET /metrics":    admin,
	"GET /v1/secrets": anyone, "PUT /v1/secrets/{name}": anyone, "DELETE /v1/secrets/{name}": keyed, // other members have no secret of that name
	"PUT /v1/team/secrets/{name}": admin, "DELETE /v1/team/secrets/{name}": admin, "POST /v1/team/secrets-rotation": admin,
	"PUT /v1/environments/{id}/secrets/{name}": private, "DELETE /v1/environments/{id}/secrets/{name}": private,
	"POST /v1/environments": anyone, "GET /v1/environments": anyone, "GET /v1/environments/{id}": private, "PATCH /v1/environments/{id}": private,
	"DELETE /v1/environments/{id}": private, "GET /v1/environments/{id}/history": private, "GET /v1/environments/{id}/history/diff": private, "GET /v1/environments/{id}/builds": private,
	"GET /v1/environments/{id}/builds/{buildId}": private, "POST /v1/environments/{id}/builds": private,
	"POST /v1/environments/{id}/builds/{buildId}/cancel": private, "GET /v1/environments/{id}/builds/{buildId}/log": private,
	"GET /v1/builds": anyone, "POST /v1/builds": anyone, "GET /v1/builds/{buildId}": private, "POST /v1/builds/{buildId}/cancel": private,
	"GET /v1/builds/{buildId}/log": private, "GET /v1/builds/{buildId}/pty": private,
	"POST /v1/environment-check": anyone, "GET /v1/environment-schema": open, "GET /v1/snapshots": anyone, "DELETE /v1/snapshots/{snapshotId}": own, "PATCH /v1/snapshots/{snapshotId}": admin,
	"GET /v1/team/external-id":              "any",
	"GET /.well-known/openid-configuration": open, "GET /.well-known/jwks.json": open,
	"GET /v1/agents/{id}/webhook-deliveries": own, "POST /v1/agents/{id}/webhook-deliveries/{deliveryId}/replay": own,
	"POST /v0/agents": anyone, "GET /v0/agents": anyone, "GET /v0/me": anyone, "GET /v0/models": anyone, "GET /v0/repositories": anyone,
	"GET /v0/agents/{id}": own, "DELETE /v0/agents/{id}": own, "POST /v0/agents/{id}/followup": own, "POST /v0/agents/{id}/stop": own,
	"GET /v0/agents/{id}/conversation": own, "GET /v0/agents/{id}/artifacts": own, "GET /v0/agents/{id}/artifacts/download": own,
	"GET /v1/session": open, "POST /v1/session": signIn, "DELETE /v1/session": anyone, "POST /v1/session/passkey": signIn,
	"GET /v1/session/provider": signIn, "GET /v1/session/provider/callback": signIn,
	"GET /v1/members": anyone, "POST /v1/members": admin, "PATCH /v1/members/{userId}": admin, "POST /v1/members/{userId}/link": admin, "GET /v1/audit": admin,
	"PATCH /v1/me/profile": anyone, "PUT /v1/me/password": anyone, "GET /v1/me/keys": anyone, "POST /v1/me/keys": anyone, "DELETE /v1/me/keys/{keyId}": keyed,
	"GET /v1/me/passkeys": anyone, "POST /v1/me/passkey-ceremonies": anyone, "POST /v1/me/passkeys": anyone, "DELETE /v1/me/passkeys/{passkeyId}": keyed,
	"GET /v1/mcp-servers": anyone, "POST /v1/mcp-servers": anyone, "DELETE /v1/mcp-servers/{serverId}": keyed, "POST /v1/mcp-servers/{serverId}/test": keyed,
	"POST /v1/mcp-servers/{serverId}/sign-in": keyed, "DELETE /v1/mcp-servers/{serverId}/sign-in": keyed, "GET /v1/mcp-sign-in/callback": signIn,
	"GET /v1/agents/{id}/context":     own,
	"GET /v1/agents/{id}/findings":    own,
	"GET /v1/agents/{id}/mcp-servers": own, "POST /v1/agents/{id}/mcp-servers/{name}/sign-in": own,
	"GET /v1/repository-access": anyone, "PATCH /v1/repository-access": admin,
	"GET /v1/server": admin, "GET /v1/server/configuration": admin, "PUT /v1/server/models/{modelId}": admin, "DELETE /v1/server/models/{modelId}": admin,
	"PUT /v1/server/git-servers/{host}": admin, "DELETE /v1/server/git-servers/{host}": admin,
	"GET /v1/settings": anyone, "PATCH /v1/settings": admin, "GET /v1/usage": anyone, "GET /v1/usage/disk": anyone,
	"POST /hooks/{source}/{connection}": hook, "GET /v1/events": admin, "POST /v1/events/{eventId}/replay": admin,
	"GET /v1/team/skills/versions": anyone, "POST /v1/team/skills/publish": admin,
	"GET /v1/memories": anyone, "GET /v1/memories/{memoryId}": anyone, "PATCH /v1/memories/{memoryId}": anyone, "DELETE /v1/memories/{memoryId}": anyone,
	"POST /v1/memories/{memoryId}/approve": anyone, "POST /v1/memories/{memoryId}/reject": anyone, // memories belong to a repository
	"POST /v1/automations": anyone, "GET /v1/automations": anyone, "GET /v1/automations/{automationId}": own, "PATCH /v1/automations/{automationId}": own, "DELETE /v1/automations/{automationId}": own,
	"POST /v1/automations/{automationId}/try": own, "POST /v1/automations/{automationId}/starts": own, "GET /v1/automations/{automationId}/starts": own,
	"POST /v1/automations/{automationId}/starts/{startId}/promote": own, "POST /v1/automations/{automationId}/starts/{startId}/cancel": own,
	"GET /healthz": open, "GET /openapi.json": open, "GET /openapi.yaml": open, "GET /help/errors": open,
}

// Two keys that are no longer valid.
const (
	expiredKey  = "aloft_expired"
	disabledKey = "aloft_disabled"
)

// addBadKeys creates an expired key and a key of a disabled user.
func (h *house) addBadKeys() {
	h.t.Helper()
	gone, err := h.store.AddUser(h.t.Context(), account.User{Email: "gone@example.com", Role: account.Owner})
	if err == nil {
		_, err = h.store.UpdateUser(h.t.Context(), gone.ID, func(u *account.User) error { u.Disabled = true; return nil })
	}
	for _, k := range []account.APIKey{
		{UserID: 1, Hash: account.HashKey(expiredKey), ExpiresAt: time.Now().Add(-time.Hour)},
		{UserID: gone.ID, Hash: account.HashKey(disabledKey)},
	} {
		if err == nil {
			_, err = h.store.AddKey(h.t.Context(), k)
		}
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) subToken(userID int) string {
	h.t.Helper()
	return h.want(h.call("POST", "/v1/sub-tokens", `{"forUserId":`+strconv.Itoa(userID)+`}`), 200).text(h.t, "accessToken")
}

// subject creates the resource on which the route acts, owned by Ann, and
// returns the route's path with the resource's id.
func (h *house) subject(rt rest.Route) string {
	h.t.Helper()
	id, runID := h.begin()
	if rt.Long {
		h.append(id, runID, &agent.RunEnded{Status: agent.Finished}) // a completed run ends its stream
	}
	path := strings.Replace(rt.Path, "/rules/{owner}/{name}", "/rules/team/run-mode", 1)
	path = strings.NewReplacer("{userId}", "2", "{keyId}", h.keyOfAnn(), "{passkeyId}", h.passkeyOfAnn(), "{deliveryId}", h.deliveryOf(id, runID, rt.Path),
		"{modelId}", h.connected(rt.Path, "models", "mine"), "{host}", h.connected(rt.Path, "git_servers", "git.acme.test"),
		"{serverId}", h.mcpServerOfAnn(rt.Path), "{snapshotId}", h.snapshotOfAnn(), "{source}", "github", "{connection}", "acme", "{eventId}", h.eventOf(rt.Path), "{seq}", h.turnsOf(id, runID, rt.Path), "{n}", "0", "{memoryId}", h.memoryOf(rt.Path),
		"{automationId}", h.automationOf(1, rt.Path, "x"), "{startId}", "start-1",
		"{id}", id, "{runId}", runID, "{name}", "TOKEN").Replace(path)
	switch {
	case strings.HasSuffix(rt.Path, "/secrets/{name}"):
		h.setSecrets(id, "TOKEN")
	case strings.HasPrefix(rt.Path, "/v1/environments/{id}"), strings.HasPrefix(rt.Path, "/v1/builds/"):
		path = strings.Replace(path, "{buildId}", h.saveEnvironment(id), 1)
	}
	return path
}

// TestWhoMayDoWhat calls every route, including WebSockets, on Ann's resources.
// It calls each without a key, with invalid keys, as each role, with
// sub-tokens, and from Ann's browser on behalf of another site.
func TestWhoMayDoWhat(t *testing.T) {
	h := newHouse(t)
	h.addBadKeys()
	h.work.diff = func(string) (string, bool, error) { return "", false, nil }
	bensSub, annsSub := h.subToken(2), h.subToken(1)
	cookie := h.enter(`{"link":"` + h.linkOf("1") + `"}`)
	seen := map[string]bool{}
	for _, rt := range h.api.routes() {
		name := rt.Method + " " + rt.Path
		seen[name] = true
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			h.t = t
			kind, ok := authorization[name]
			if !ok {
				t.Fatal("no row says who may use this route")
			}
			path := h.subject(rt)
			var socket []string
			if rt.Status == http.StatusSwitchingProtocols {
				socket = []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
			}
			status := map[string]int{}
			ask := func(who, key, body string, header ...string) {
				a := h.callAs(key, rt.Method, path, body, header...)
				status[who] = a.status
				if a.status == 401 && a.header.Get("WWW-Authenticate") == "" {
					t.Error("401 without WWW-Authenticate")
				}
			}
			strangers := map[string]string{"none": "", "wrong": "aloft_wrong", "expired": expiredKey, "disabled": disabledKey}
			for who, key := range strangers {
				ask(who, key, "{}", socket...)
			}
			for who, key := range map[string]string{"viewer": viewersKey, "other": bensKey, "otherSub": bensSub} {
				ask(who, key, "{}", socket...)
			}
			ask("elsewhere", "", task, append([]string{"Cookie", cookie, "Origin", "https://evil.example.com"}, socket...)...)
			ask("owner", annsKey, task)
			if rt.Method != http.MethodGet {
				path = h.subject(rt)
			}
			ask("ownerSub", annsSub, task)
			ask("admin", adminsKey, "{}")
			t.Log(status)
			if s := status["owner"]; s >= 500 && s != 501 || s == 401 && kind != hook || s == 404 {
				t.Errorf("its owner gets %d", s)
			}
			switch kind {
			case open, signIn, signed, hook:
				toStrangers(t, kind, status, strangers)
			default:
				toKeys(t, kind, rt, status, strangers)
			}
		})
	}
	for name := range authorization {
		if !seen[name] {
			t.Errorf("there is no route %s", name)
		}
	}
	h.t = t
	for _, item := range h.callAs(bensKey, "GET", "/v1/agents", "").get(t, "items").([]any) {
		t.Errorf("ben sees %v", item)
	}
}

// toStrangers checks the statuses that routes which need no key return to
// callers without a valid key.
func toStrangers(t *testing.T, kind string, status map[string]int, strangers map[string]string) {
	t.Helper()
	if kind == hook {
		for who, s := range status {
			if s != 401 {
				t.Errorf("a key, or none, does for a signature: %s gets %d", who, s)
			}
		}
	}
	for who := range strangers {
		switch s := status[who]; {
		case kind == open && s != 200:
			t.Errorf("it is not open to all: %s gets %d", who, s)
		case kind == signed && s != 403:
			t.Errorf("it is open to those without a signature: %s gets %d", who, s)
		case kind == signIn && (s == 401 || s != status["owner"]):
			t.Errorf("those who would sign in are asked for a key: %s gets %d", who, s)
		}
	}
	if kind == signed && (status["other"] != 403 || status["owner"] != 403) {
		t.Error("a key does for a signature")
	}
}

// toKeys checks the statuses that a route which needs a key returns to all
// callers.
func toKeys(t *testing.T, kind string, rt rest.Route, status map[string]int, strangers map[string]string) {
	t.Helper()
	for who := range strangers {
		if status[who] != 401 {
			t.Errorf("it is open to those without a key: %s gets %d", who, status[who])
		}
	}
	switch {
	case (kind == own || kind == private) && status["other"] != 404:
		t.Error("another's agent can be reached, or its existence seen")
	case kind == admin && status["other"] != 403:
		t.Error("somebody who is not the admin may use it")
	case kind == anyone && (status["other"] == 404 || status["other"] == 401):
		t.Error("another user cannot use it at all")
	}
	if got, want := status["viewer"] == 403, rt.Least() != account.Viewer; got != want {
		t.Errorf("a viewer gets %d", status["viewer"])
	}
	if kind == own && rt.Least() == account.Viewer && status["viewer"] != status["owner"] {
		t.Errorf("a viewer, who reads everything, gets %d", status["viewer"])
	}
	if s := status["admin"]; s == 403 || kind == own && s == 404 && rt.Method != http.MethodDelete || kind == private && s != 404 {
		t.Errorf("an admin gets %d", s)
	}
	// A sub-token may do what its user may do, except manage the user's
	// account, manage members, and create other sub-tokens.
	selfCare := (strings.HasPrefix(rt.Path, "/v1/me/") || strings.HasPrefix(rt.Path, "/v1/members")) && rt.Method != http.MethodGet
	for sub, of := range map[string]string{"otherSub": "other", "ownerSub": "owner"} {
		want := status[of]
		if selfCare || rt.Path == "/v1/sub-tokens" {
			want = 403
		}
		if status[sub] != want {
			t.Errorf("%s gets %d, want %d", sub, status[sub], want)
		}
	}
	// Requests from another site's page may only read.
	want := status["owner"]
	if rt.Method != http.MethodGet || rt.Status == http.StatusSwitchingProtocols {
		want = 403
	}
	if status["elsewhere"] != want {
		t.Errorf("a page of another site gets %d, want %d", status["elsewhere"], want)
	}
}

// Admins can neither create users with more rights than their own, nor sign in
// as such users.
func TestAdminsStayAdmins(t *testing.T) {
	h := newHouse(t)
	other, err := h.store.AddUser(t.Context(), account.User{Email: "second@example.com", Role: account.Admin})
	if err != nil {
		t.Fatal(err)
	}
	second := strconv.FormatInt(other.ID, 10)
	for _, row := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/v1/sub-tokens", `{"forUserId":1}`, 403},
		{"POST", "/v1/sub-tokens", `{"forUserEmail":"anns@example.com"}`, 403},
		{"POST", "/v1/sub-tokens", `{"forUserId":` + second + `}`, 403},
		{"POST", "/v1/sub-tokens", `{"forUserId":2}`, 200},
		{"POST", "/v1/sub-tokens", `{"forUserId":4}`, 200}, // the admin's own user
		{"POST", "/v1/members/1/link", ``, 403},
		{"PATCH", "/v1/members/1", `{"disabled":true}`, 403},
		{"PATCH", "/v1/members/4", `{"role":"owner"}`, 403},
		{"PATCH", "/v1/members/2", `{"role":"admin"}`, 403},
		{"POST", "/v1/members", `{"email":"new@example.com","role":"admin"}`, 403},
	} {
		if a := h.callAs(adminsKey, row.method, row.path, row.body); a.status != row.want {
			t.Errorf("%s %s %s: %d, want %d: %s", row.method, row.path, row.body, a.status, row.want, a.body)
		}
	}
}

// A sub-token cannot outlive its hour: not through a sign-in link, a new owner,
// another e-mail address for the provider, or a stored reply that contains a
// new key.
func TestSubTokenDoesNotRenewItself(t *testing.T) {
	h := newHouse(t)
	const newKey = `{"name":"ci"}`
	h.want(h.call("POST", "/v1/me/keys", newKey, "Idempotency-Key", "deploy"), 201)
	sub := h.subToken(1) // as the owner
	for _, row := range [][3]string{
		{"POST", "/v1/members/1/link", ``},
		{"POST", "/v1/members/2/link", ``},
		{"POST", "/v1/members", `{"email":"new@example.com","role":"owner"}`},
		{"PATCH", "/v1/members/1", `{"email":"mine@example.com"}`},
		{"PATCH", "/v1/members/2", `{"role":"owner"}`},
		{"POST", "/v1/me/keys", newKey},
		{"POST", "/v1/session", `{"key":"` + sub + `"}`},
	} {
		a := h.callAs(sub, row[0], row[1], row[2], "Idempotency-Key", "deploy")
		if a.status != 403 && row[1] != "/v1/session" || strings.Contains(string(a.body), "aloft_") || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s %s %s: %d %s", row[0], row[1], row[2], a.status, a.body)
		}
	}
}
