package api

import (
	"strings"
	"testing"
)

// Members can run agents only on repositories in the allow lists, whichever
// form of URL they use. Admins can run agents on all repositories.
func TestRepositoryAccess(t *testing.T) {
	h := newHouse(t)
	const open, shut = `{"prompt":{"text":"x"},"repos":[{"url":"https://git.example.com/open/r.git"}]}`, `{"prompt":{"text":"x"},"repos":[{"url":"https://git.example.com/shut/r.git"}]}`
	if a := h.want(h.callAs(bensKey, "GET", "/v1/repository-access", ""), 200); a.text(t, "mode") != "credentials" {
		t.Errorf("%s", a.body)
	}
	before := h.want(h.callAs(bensKey, "POST", "/v1/agents", shut), 201).text(t, "agent.id") // everything is allowed by default
	for body, field := range map[string]string{
		`{"mode":"all"}`: "mode", `{"everyone":["git.example.com"]}`: "everyone[0]", `{"members":[{"userId":2,"repositories":["a b/c"]}]}`: "members[0].repositories[0]", `{"members":[{"userId":99,"repositories":["*"]}]}`: "members[0].userId",
	} {
		if a := h.call("PATCH", "/v1/repository-access", body); a.status != 400 || !strings.Contains(string(a.body), field) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	set := h.want(h.callAs(adminsKey, "PATCH", "/v1/repository-access", `{"mode":"allow-list","everyone":["https://git.example.com/all/*"],"members":[{"userId":2,"repositories":["git.example.com/Open/r.git"]},{"userId":3,"repositories":["*"]}]}`), 200)
	if len(set.get(t, "members").([]any)) != 2 || set.get(t, "everyone").([]any)[0] != "git.example.com/all/*" {
		t.Errorf("%s", set.body)
	}
	if a := h.want(h.callAs(bensKey, "GET", "/v1/repository-access", ""), 200); a.text(t, "mode") != "allow-list" || strings.Contains(string(a.body), `"userId":3`) {
		t.Errorf("ben sees %s", a.body)
	}
	id := h.want(h.callAs(bensKey, "POST", "/v1/agents", open), 201).text(t, "agent.id")
	h.want(h.callAs(bensKey, "POST", "/v1/agents/"+id+"/queue", then), 201)
	h.want(h.callAs(adminsKey, "POST", "/v1/agents", shut), 201)
	for _, at := range []string{
		"git.example.com/shut/r", "https://git.example.com/all/../shut/r", "https://git.example.com/all/%2e%2e/shut/r", "ssh://git@git.example.com/shut/r", "git@git.example.com:shut/r.git", "https://git.example.com:8443/open/r",
	} {
		if a := h.callAs(bensKey, "POST", "/v1/agents", `{"prompt":{"text":"x"},"repos":[{"url":"https://git.example.com/open/r"},{"url":"`+at+`"}]}`); a.status == 201 {
			t.Errorf("ben runs an agent on %s", at)
		}
	}
	for path, body := range map[string]string{
		"/v1/agents": shut, "/v0/agents": `{"prompt":{"text":"x"},"source":{"repository":"https://git.example.com/shut/r"}}`,
		"/v1/agents/" + before + "/runs": then, "/v1/agents/" + before + "/queue": then, "/v1/agents/" + before + "/retry": "{}", "/v1/agents/" + before + "/fork": then,
		"/v1/builds": `{"repo":"https://git.example.com/shut/r.git"}`,
	} {
		if a := h.want(h.callAs(bensKey, "POST", path, body), 403); !strings.Contains(string(a.body), "repository_access") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	h.want(h.call("PATCH", "/v1/repository-access", `{"members":[{"userId":2,"repositories":[]}]}`), 200)
	h.want(h.callAs(bensKey, "POST", "/v1/agents", open), 403)
	h.want(h.call("PATCH", "/v1/repository-access", `{"mode":"credentials"}`), 200)
	h.want(h.callAs(bensKey, "POST", "/v1/agents", shut), 201)
}
