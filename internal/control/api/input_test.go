package api

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/fault"
)

func prompt(rest string) string { return `{"prompt":{"text":"x"},` + rest + `}` }

func TestBadInput(t *testing.T) {
	h := newHouse(t)
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n"))
	image := func(fields string) string { return `{"prompt":{"text":"x","images":[{` + fields + `}]}}` }
	five := strings.Repeat(`{"data":"`+png+`","mimeType":"image/png"},`, 5)
	for _, c := range []struct {
		name, body, code string
		says             []string // each must be in the message
	}{
		{"Empty", "", "invalid_json", []string{"empty"}},
		{"Malformed", "{\n \"prompt\": {\"text\": \"x\",}}", "invalid_json", []string{"line 2", "column 25"}},
		{"Cut", `{"prompt":`, "invalid_json", []string{"line 1"}},
		{"NotAnObject", `[1]`, "invalid_request", []string{"an object, not array"}},
		{"NoPrompt", `{}`, "invalid_request", []string{"prompt"}},
		{"NullPrompt", `{"prompt":null}`, "invalid_request", []string{"prompt"}},
		{"NoText", `{"prompt":{}}`, "invalid_request", []string{"prompt.text"}},
		{"BlankText", `{"prompt":{"text":" \n"}}`, "invalid_request", []string{"prompt.text"}},
		{"TextIsANumber", `{"prompt":{"text":5}}`, "invalid_request", []string{"prompt.text", "string", "number"}},
		{"PromptIsAString", `{"prompt":"x"}`, "invalid_request", []string{"prompt", "object", "string"}},
		{"PromptOf10MB", `{"prompt":{"text":"` + strings.Repeat("x", 10<<20) + `"}}`, "invalid_request", []string{"prompt.text", "10485760"}},
		{"ImagesIsAnObject", `{"prompt":{"text":"x","images":{}}}`, "invalid_request", []string{"prompt.images", "array"}},
		{"SixImages", `{"prompt":{"text":"x","images":[` + five + `{}]}}`, "invalid_request", []string{"prompt.images", "6"}},
		{"ImageWithNothing", image(``), "invalid_request", []string{"prompt.images[0].data"}},
		{"ImageWithoutType", image(`"data":"` + png + `"`), "invalid_request", []string{"prompt.images[0].mimeType"}},
		{"ImageOfAnotherType", image(`"data":"` + png + `","mimeType":"image/jpeg"`), "invalid_request", []string{"prompt.images[0].data", "image/png"}},
		{"ImageOfNoType", image(`"data":"` + png + `","mimeType":"text/plain"`), "invalid_request", []string{"prompt.images[0].mimeType"}},
		{"ImageNotBase64", image(`"data":"%%","mimeType":"image/png"`), "invalid_request", []string{"prompt.images[0].data", "base64"}},
		{"ImageOf16MB", image(`"data":"` + base64.StdEncoding.EncodeToString(make([]byte, 16<<20)) + `","mimeType":"image/png"`), "invalid_request", []string{"prompt.images[0].data", "15 MiB"}},
		{"ImageByURL", image(`"url":"http://127.0.0.1:1/y.png"`), "image_unreachable", []string{"prompt.images[0].url"}},
		{"ImageByPrivateURL", image(`"url":"http://169.254.169.254/latest"`), "address_blocked", []string{"prompt.images[0].url", "169.254"}},
		{"ImageByFileURL", image(`"url":"file:///etc/passwd"`), "invalid_request", []string{"prompt.images[0].url"}},
		{"WebhookURL", prompt(`"webhook":{"url":"ftp://x/"}`), "invalid_request", []string{"webhook.url"}},
		{"WebhookInside", prompt(`"webhook":{"url":"http://10.0.0.1/"}`), "address_blocked", []string{"webhook.url", "10.0.0.0/8"}},
		{"WebhookSecret", prompt(`"webhook":{"url":"https://example.com/h","secret":"short"}`), "invalid_request", []string{"webhook.secret"}},
		{"ImageBoth", image(`"url":"https://x/y.png","data":"` + png + `"`), "invalid_request", []string{"prompt.images[0]"}},
		{"ImageFlat", image(`"data":"` + png + `","mimeType":"image/png","dimension":{"width":0,"height":1}`), "invalid_request", []string{"dimension"}},
		{"NameEmpty", prompt(`"name":""`), "invalid_request", []string{"name"}},
		{"NameLong", prompt(`"name":"` + strings.Repeat("é", 101) + `"`), "invalid_request", []string{"name", "101"}},
		{"AgentID", prompt(`"agentId":"bc-1"`), "invalid_request", []string{"agentId"}},
		{"ModelUnknown", prompt(`"model":{"id":"gpt-9"}`), "unknown_model", []string{"model.id", "gpt-9", "house", "other"}},
		{"ModelEmpty", prompt(`"model":{}`), "invalid_request", []string{"model.id"}},
		{"ModelIsAString", prompt(`"model":"house"`), "invalid_request", []string{"model", "object"}},
		{"ModelParams", prompt(`"model":{"id":"house","params":[{"id":"a","value":"b"}]}`), "not_implemented", []string{"model.params"}},
		{"EnvType", prompt(`"env":{"type":"moon"}`), "invalid_request", []string{"env.type"}},
		{"EnvPool", prompt(`"env":{"type":"pool"}`), "not_implemented", []string{"env.type"}},
		{"EnvMachine", prompt(`"env":{"type":"machine","name":"x"}`), "not_implemented", []string{"env.type"}},
		{"EnvName", prompt(`"env":{"type":"cloud","name":""}`), "invalid_request", []string{"env.name"}},
		{"TheSameRepoTwice", prompt(`"repos":[{"url":"https://h/a"},{"url":"git@h:a.git"}]`), "invalid_request", []string{"repos[1].url"}},
		{"RepoPR", prompt(`"repos":[{"url":"https://h/a","prUrl":"https://h/a/1"}]`), "not_implemented", []string{"repos[0].prUrl"}},
		{"RepoURL", prompt(`"repos":[{}]`), "invalid_request", []string{"repos[0].url"}},
		{"RepoRef", prompt(`"repos":[{"url":"https://h/a","startingRef":"--upload-pack=x"}]`), "invalid_request", []string{"repos[0].startingRef"}},
		{"ReposIsAString", prompt(`"repos":"https://h/a"`), "invalid_request", []string{"repos", "array"}},
		{"MCPServers", prompt(`"mcpServers":[{"name":"a","command":"b"}]`), "not_implemented", []string{"mcpServers"}},
		{"CustomSubagents", prompt(`"customSubagents":[{"name":"a","description":"b","prompt":"c"}]`), "not_implemented", []string{"customSubagents"}},
		{"EnvVars", prompt(`"envVars":{"CURSOR_A":"b"}`), "name_reserved", []string{"envVars.CURSOR_A"}},
		{"EmptyEnvVar", prompt(`"envVars":{"A":""}`), "invalid_request", []string{"envVars.A"}},
		{"AutoCreatePR", prompt(`"autoCreatePR":true`), "not_implemented", []string{"autoCreatePR"}},
		{"Plan", prompt(`"mode":"plan"`), "not_implemented", []string{"mode"}},
		{"Mode", prompt(`"mode":"dance"`), "invalid_request", []string{"mode"}},
		{"Class", prompt(`"class":"weak"`), "invalid_request", []string{"class"}},
		{"WorkOnCurrentBranch", prompt(`"workOnCurrentBranch":"yes"`), "invalid_request", []string{"workOnCurrentBranch", "true or false"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			a := h.want(h.call("POST", "/v1/agents", c.body), 400)
			if a.text(t, "error.code") != c.code {
				t.Errorf("code of %s, want %s", a.body, c.code)
			}
			for _, want := range c.says {
				if !strings.Contains(a.text(t, "error.message"), want) {
					t.Errorf("%q does not say %q", a.text(t, "error.message"), want)
				}
			}
		})
	}
	h.t = t
	if a := h.call("GET", "/v1/agents", ""); a.status != 200 || len(a.get(t, "items").([]any)) != 0 {
		t.Errorf("a refused request left an agent: %s", a.body)
	}
	id, _ := h.begin()
	for _, body := range []string{`{}`, `{"prompt":{"text":5}}`, prompt(`"mode":"plan"`), prompt(`"mcpServers":[{"name":"x"}]`)} {
		h.want(h.call("POST", "/v1/agents/"+id+"/runs", body), 400)
	}
}

func TestLargeImagesAreAccepted(t *testing.T) {
	h := newHouse(t)
	data := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, maxImage-8)...)
	image := `{"data":"` + base64.StdEncoding.EncodeToString(data) + `","mimeType":"image/png"}`
	a := h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x","images":[`+image+`]}}`), 201)
	events, err := h.store.Read(t.Context(), a.text(t, "agent.id"), 1, 1)
	if err != nil || len(events[0].Body.(*agent.RunCreated).Prompt.Blocks[1].Image.Data) != maxImage {
		t.Errorf("the image was not kept whole: %v", err)
	}
}

func TestBodyThatIsTooLong(t *testing.T) {
	h := newHouse(t)
	req, err := http.NewRequestWithContext(t.Context(), "POST", h.http.URL+"/v1/agents", io.LimitReader(spaces{}, maxBody+2))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+annsKey)
	resp, err := h.http.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 413 || !strings.Contains(string(body), `"code":"payload_too_large"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestRepoURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://github.com/o/r.git":    "https://github.com/o/r.git",
		"http://127.0.0.1:8080/r":       "http://127.0.0.1:8080/r",
		"ssh://git@h:22/o/r":            "ssh://git@h:22/o/r",
		"git@github.com:o/r.git":        "git@github.com:o/r.git",
		"github.com/o/r":                "https://github.com/o/r",
		"git.example.com:8443/o/r":      "https://git.example.com:8443/o/r",
		"file:///srv/git/../git/r":      "file:///srv/git/r",
		"":                              "",
		"r":                             "",
		"/srv/r":                        "",
		"-oProxyCommand=x":              "",
		"ext::sh -c x":                  "",
		"ext::x":                        "",
		"::x":                           "",
		"https://user:secret@h/r":       "",
		"https://secret@h/r":            "",
		"ssh://u:secret@h/r":            "",
		"ssh://-oProxyCommand=x/r":      "",
		"https://h":                     "",
		"https:///r":                    "",
		"https://h/r?token=secret":      "",
		"https://h/r#secret":            "",
		"https://h/a b":                 "",
		"https://h/\x00":                "",
		"https://secret%zz@h/r":         "",
		"ftp://h/r":                     "",
		"file://h/r":                    "",
		"file:///":                      "",
		"git@-x:r":                      "",
		"https://h/" + longPath:         "",
		"javascript://h/r":              "",
		"https://[::1]:8080/r":          "https://[::1]:8080/r",
		"HTTPS://h/r":                   "HTTPS://h/r",
		"github.com:o/r":                "",
		"git@host::ext":                 "",
		"user@host:~/r":                 "user@host:~/r",
		"file:///srv/%2e%2e/etc/passwd": "file:///etc/passwd",
	} {
		got, err := repoURL(in, true)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("repoURL(%q) = %q, %v; want %q", in, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error repeats a secret: %v", in, err)
		}
	}
	if _, err := repoURL("file:///srv/r", false); err == nil {
		t.Error("file:// was accepted where it is not allowed")
	}
	for in, want := range map[string]string{
		"https://h:1/o/r.git": "h:1/o/r.git", "git@h:o/r": "h/o/r", "ssh://git@h/o@x": "h/o@x", "file:///srv/r": "/srv/r",
	} {
		if got := withoutScheme(in); got != want {
			t.Errorf("withoutScheme(%q) = %q, want %q", in, got, want)
		}
	}
}

var longPath = strings.Repeat("x", maxRepoURL)

// Every route, and what each kind of caller gets of it. A route that is not
// here fails the test.
func TestWhoMayDoWhat(t *testing.T) {
	h := newHouse(t)
	const open, own, personal, admin, signed, signIn = "open", "own", "personal", "admin", "signed", "signIn" // own, personal: another's is not found; personal: an admin's neither
	rows := map[string]string{
		"POST /v1/agents": "any", "GET /v1/agents": "any", "GET /v1/me": "any", "GET /v1/models": "any",
		"GET /v1/approvals": "any", "GET /v1/agents/{id}/approvals": own, "POST /v1/agents/{id}/approvals/{approvalId}": own,
		"GET /v1/rules/{owner}/{name}": "any", "PUT /v1/rules/{owner}/{name}": admin, // of the team's
		"GET /v1/repositories": "any", "POST /v1/sub-tokens": admin,
		"GET /v1/agents/{id}": own, "DELETE /v1/agents/{id}": own,
		"POST /v1/agents/{id}/archive": own, "POST /v1/agents/{id}/unarchive": own,
		"POST /v1/agents/{id}/pause": own, "POST /v1/agents/{id}/resume": own, "POST /v1/agents/{id}/fork": own, "GET /v1/agents/{id}/ssh": own,
		"POST /v1/agents/{id}/runs": own, "GET /v1/agents/{id}/runs": own,
		"GET /v1/agents/{id}/runs/{runId}": own, "GET /v1/agents/{id}/runs/{runId}/stream": own,
		"POST /v1/agents/{id}/runs/{runId}/cancel": own, "GET /v1/agents/{id}/usage": own,
		"GET /v1/agents/{id}/connections": own, "GET /v1/agents/{id}/ports/{port}": own, "POST /v1/agents/{id}/ports/{port}/preview": own,
		"GET /v1/agents/{id}/diff": own, "GET /v1/agents/{id}/events": own,
		"GET /v1/agents/{id}/terminals": own, "POST /v1/agents/{id}/terminals": own, "GET /v1/agents/{id}/pty": own,
		"GET /v1/agents/{id}/artifacts": own, "GET /v1/agents/{id}/artifacts/download": own, "GET /v1/agents/{id}/artifacts/contents": signed,
		"GET /v1/agents/{id}/environment": own, "POST /v1/agents/{id}/snapshots": own, "POST /v1/agents/{id}/environment/try": own, "POST /v1/agents/{id}/environment/commit": own,
		"GET /metrics":    admin,
		"GET /v1/secrets": "any", "PUT /v1/secrets/{name}": "any", "DELETE /v1/secrets/{name}": "key", // another has none of that name
		"PUT /v1/team/secrets/{name}": admin, "DELETE /v1/team/secrets/{name}": admin, "POST /v1/team/secrets-rotation": admin,
		"PUT /v1/environments/{id}/secrets/{name}": personal, "DELETE /v1/environments/{id}/secrets/{name}": personal,
		"POST /v1/environments": "any", "GET /v1/environments": "any", "GET /v1/environments/{id}": personal, "PATCH /v1/environments/{id}": personal,
		"DELETE /v1/environments/{id}": personal, "GET /v1/environments/{id}/history": personal, "GET /v1/environments/{id}/builds": personal,
		"GET /v1/environments/{id}/builds/{buildId}": personal, "POST /v1/environments/{id}/builds": personal,
		"POST /v1/environments/{id}/builds/{buildId}/cancel": personal, "GET /v1/environments/{id}/builds/{buildId}/log": personal,
		"GET /v1/builds": "any", "POST /v1/builds": "any", "GET /v1/builds/{buildId}": personal, "POST /v1/builds/{buildId}/cancel": personal,
		"GET /v1/builds/{buildId}/log": personal, "GET /v1/builds/{buildId}/pty": personal,
		"GET /v1/team/external-id":              "any",
		"GET /.well-known/openid-configuration": open, "GET /.well-known/jwks.json": open,
		"GET /v1/agents/{id}/webhook-deliveries": own, "POST /v1/agents/{id}/webhook-deliveries/{deliveryId}/replay": own,
		"POST /v0/agents": "any", "GET /v0/agents": "any", "GET /v0/me": "any", "GET /v0/models": "any", "GET /v0/repositories": "any",
		"GET /v0/agents/{id}": own, "DELETE /v0/agents/{id}": own, "POST /v0/agents/{id}/followup": own, "POST /v0/agents/{id}/stop": own,
		"GET /v0/agents/{id}/conversation": own, "GET /v0/agents/{id}/artifacts": own, "GET /v0/agents/{id}/artifacts/download": own,
		"GET /v1/session": open, "POST /v1/session": signIn, "DELETE /v1/session": "any", "POST /v1/session/passkey": signIn,
		"GET /v1/session/provider": signIn, "GET /v1/session/provider/callback": signIn,
		"GET /v1/members": "any", "POST /v1/members": admin, "PATCH /v1/members/{userId}": admin, "POST /v1/members/{userId}/link": admin, "GET /v1/audit": admin,
		"PATCH /v1/me/profile": "any", "PUT /v1/me/password": "any", "GET /v1/me/keys": "any", "POST /v1/me/keys": "any", "DELETE /v1/me/keys/{keyId}": "key",
		"GET /v1/me/passkeys": "any", "POST /v1/me/passkey-ceremonies": "any", "POST /v1/me/passkeys": "any", "DELETE /v1/me/passkeys/{passkeyId}": "key",
		"GET /v1/settings": "any", "PATCH /v1/settings": admin, "GET /v1/usage": "any",
		"GET /healthz": open, "GET /openapi.json": open, "GET /openapi.yaml": open,
	}
	h.work.diff = func(string) (string, bool, error) { return "", false, nil }
	seen := map[string]bool{}
	for _, rt := range h.api.routes() {
		name := rt.method + " " + rt.path
		seen[name] = true
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			h.t = t
			kind, ok := rows[name]
			if !ok {
				t.Fatal("no row says who may use this route")
			}
			id, runID := h.begin()
			if rt.long {
				h.append(id, runID, &agent.RunEnded{Status: agent.Finished}) // so that its stream ends
			}
			rt.path = strings.Replace(rt.path, "/rules/{owner}/{name}", "/rules/team/run-mode", 1)
			path := strings.NewReplacer("{userId}", "2", "{keyId}", h.keyOfAnn(), "{passkeyId}", h.passkeyOfAnn(), "{deliveryId}", h.deliveryOf(id, runID, rt.path), "{id}", id, "{runId}", runID, "{name}", "TOKEN").Replace(rt.path)
			if strings.HasSuffix(rt.path, "/secrets/{name}") {
				h.setSecrets(id, "TOKEN")
			} else if strings.HasPrefix(rt.path, "/v1/environments/{id}") || strings.HasPrefix(rt.path, "/v1/builds/") {
				path = strings.Replace(path, "{buildId}", h.saveEnvironment(id), 1)
			}
			status := map[string]int{}
			for who, key := range map[string]string{"none": "", "wrong": "aloft_wrong", "viewer": viewersKey, "other": bensKey} {
				a := h.callAs(key, rt.method, path, "{}")
				status[who] = a.status
				if a.status == 401 && a.header.Get("WWW-Authenticate") == "" {
					t.Error("401 without WWW-Authenticate")
				}
			}
			status["owner"] = h.call(rt.method, path, task).status
			status["admin"] = h.callAs(adminsKey, rt.method, path, "{}").status
			t.Log(status)
			switch {
			case kind == open && (status["none"] != 200 || status["wrong"] != 200):
				t.Error("it is not open to all")
			case kind == signed && (status["none"] != 403 || status["wrong"] != 403 || status["other"] != 403 || status["owner"] != 403):
				t.Error("it is open to those without a signature")
			case kind == signIn && (status["none"] == 401 || status["none"] != status["owner"]):
				t.Error("those who would sign in are asked for a key")
			case kind == signed, kind == signIn:
			case kind != open && (status["none"] != 401 || status["wrong"] != 401):
				t.Error("it is open to those without a key")
			case (kind == own || kind == personal) && status["other"] != 404:
				t.Error("another's agent can be reached, or its existence seen")
			case kind == admin && status["other"] != 403:
				t.Error("somebody who is not the admin may use it")
			case kind == "any" && (status["other"] == 404 || status["other"] == 401):
				t.Error("another user cannot use it at all")
			}
			if kind != open && kind != signed && kind != signIn {
				if got, want := status["viewer"] == 403, rt.least() != account.Viewer; got != want {
					t.Errorf("a viewer gets %d", status["viewer"])
				}
				if status["admin"] == 403 || kind == own && status["admin"] == 404 && rt.method != "DELETE" || kind == personal && status["admin"] != 404 {
					t.Errorf("an admin gets %d", status["admin"])
				}
			}
			if s := status["owner"]; s >= 500 && s != 501 || s == 401 || s == 404 {
				t.Errorf("its owner gets %d", s)
			}
		})
	}
	for name := range rows {
		if !seen[name] {
			t.Errorf("there is no route %s", name)
		}
	}
	h.t = t
	for _, item := range h.callAs(bensKey, "GET", "/v1/agents", "").get(t, "items").([]any) {
		t.Errorf("ben sees %v", item)
	}
}

func TestKeysAreSentInEitherForm(t *testing.T) {
	h := newHouse(t)
	basic := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	for header, want := range map[string]int{
		"Bearer " + annsKey: 200, "bearer  " + annsKey: 200, basic(annsKey + ":"): 200,
		basic(annsKey + ":x"): 401, basic(":" + annsKey): 401, basic(annsKey): 401, annsKey: 401, "Bearer ": 401, "Token " + annsKey: 401,
	} {
		if a := h.callAs("", "GET", "/v1/me", "", "Authorization", header); a.status != want {
			t.Errorf("%s: %d, want %d", header, a.status, want)
		}
	}
	if log := h.log.String(); strings.Contains(log, annsKey) || !strings.Contains(log, "route=/v1/me") {
		t.Errorf("log: %s", log)
	}
}

func TestOtherMethodsAndPaths(t *testing.T) {
	h := newHouse(t)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"PUT", "/v1/agents", 405, "POST, GET, HEAD, OPTIONS"},
		{"PATCH", "/v1/me", 405, "GET, HEAD, OPTIONS"},
		{"OPTIONS", "/v1/agents", 204, "POST, GET, HEAD, OPTIONS"},
		{"HEAD", "/v1/me", 200, ""},
		{"GET", "/v1/nothing", 404, ""},
		{"GET", "/", 404, ""},
		{"GET", "/v1/agents/", 404, ""},
		{"POST", "/auth/exchange_user_api_key", 404, ""},
		{"GET", "/v1/agents/not-an-id", 404, ""},
		{"GET", "/v1/agents/bc-00000000-0000-4000-8000-00000000000f", 404, ""},
	} {
		a := h.call(c.method, c.path, "")
		if a.status != c.status || a.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q: %s", c.method, c.path, a.status, a.header.Get("Allow"), a.body)
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s: headers %v", c.method, c.path, a.header)
		}
	}
	id, runID := h.begin()
	if a := h.call("HEAD", streamOf(id, runID), ""); a.status != 200 || a.header.Get("Content-Type") != eventStream {
		t.Errorf("HEAD of a stream: %d", a.status)
	}
	if got := h.call("GET", "/v1/me", "", "X-Request-Id", "mine-1").header.Get("X-Request-Id"); got != "mine-1" {
		t.Errorf("request id %q", got)
	}
	if got := h.call("GET", "/v1/me", "", "X-Request-Id", "a b=c").header.Get("X-Request-Id"); got == "a b=c" {
		t.Error("a request id that could forge a log line was taken over")
	}
}

func TestPanicIsAnInternalError(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	h.work.diff = func(string) (string, bool, error) { panic("secret") }
	a := h.want(h.call("GET", "/v1/agents/"+id+"/diff", ""), 500)
	if strings.Contains(string(a.body), "secret") || a.text(t, "error.code") != "internal" {
		t.Errorf("%s", a.body)
	}
	h.work.diff = func(string) (string, bool, error) {
		return "", false, fault.Unavailable("the machine is gone").Named("machine_gone")
	}
	h.want(h.call("GET", "/v1/agents/"+id+"/diff", ""), 503)
}

// A reader that takes nothing does not hold its handler for ever.
func TestSlowReaderIsCutOff(t *testing.T) {
	h := newHouse(t)
	h.api.patience = 50 * time.Millisecond
	id, runID := h.begin()
	for range 40 {
		h.append(id, runID, &agent.TextDelta{Text: strings.Repeat("x", 1<<20)})
	}
	conn, err := net.Dial("tcp", h.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", streamOf(id, runID), annsKey)
	defer conn.Close() // after it has read nothing
	eventually(t, "the handler has returned", func() bool { return strings.Contains(h.log.String(), "/stream") })
}
