package api

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// lost is a store whose database does not respond.
type lost struct{ store.Agents }

func (lost) ListRuns(context.Context, string, store.Page) ([]agent.Run, error) {
	return nil, store.ErrUnreachable
}

// TestCodes causes every error code that the help page lists, and checks the
// status, the shape and the URL of the help page.
func TestCodes(t *testing.T) {
	h := newHouse(t)
	h.api.accounts.Environments = h.api.environments
	h.addBadKeys()
	id, runID := h.begin()
	ended, endedRun := h.begin()
	h.append(ended, endedRun, &agent.RunEnded{Status: agent.Finished})
	archived, archivedRun := h.begin()
	h.append(archived, archivedRun, &agent.RunEnded{Status: agent.Finished}, &agent.Archived{Archived: true})
	h.keep(id, inMachine{"a.txt": "a"})
	env := h.want(h.call("POST", "/v1/environments", `{"owner":"personal","name":"web","repos":[{"url":"https://git.example.com/o/r"}],"environmentJson":"{}"}`), 201).text(t, "id")
	h.want(h.call("PUT", "/v1/secrets/TOKEN", body("")), 200)
	sub := h.want(h.call("POST", "/v1/sub-tokens", `{"forUserId":1}`), 200).text(t, "accessToken")
	h.work.diff = func(of string) (string, bool, error) {
		if of == ended {
			panic("it is broken")
		}
		return "", false, fault.Unavailable("the host does not answer").Named("repo_unreachable")
	}
	prompt := func(more string) string { return `{"prompt":{"text":"x"}` + more + `}` }
	onRepo := `,"repos":[{"url":"https://h/a"}]`
	agents, of := "/v1/agents", "/v1/agents/"+id
	type try struct {
		key, method, path, body string
		status                  int
	}
	none := agent.NewID()
	tries := map[string][]try{
		"unauthorized":              {{"", "GET", "/v1/me", "", 401}, {"aloft_no", "GET", "/v1/me", "", 401}, {expiredKey, "GET", agents, "", 401}, {"", "GET", "/v0/me", "", 401}},
		"api_key_not_found":         {{annsKey, "DELETE", "/v1/me/keys/999", "", 404}, {annsKey, "DELETE", "/v1/me/keys/x", "", 404}},
		"role_forbidden":            {{viewersKey, "POST", agents, prompt(""), 403}, {adminsKey, "PATCH", "/v1/members/2", `{"role":"owner"}`, 403}, {bensKey, "GET", agents + "?user=1", "", 403}, {viewersKey, "POST", "/v0/agents", prompt(""), 403}},
		"team_admin_required":       {{bensKey, "POST", "/v1/environments", `{"owner":"team","name":"a","environmentJson":"{}"}`, 403}, {bensKey, "GET", "/v1/audit", "", 403}, {bensKey, "PUT", "/v1/rules/team/run-mode", `{"text":"allowlist"}`, 403}},
		"key_not_supported":         {{sub, "PUT", "/v1/me/password", `{"password":"x"}`, 403}},
		"service_account_required":  {{sub, "POST", "/v1/sub-tokens", `{"forUserId":1}`, 403}},
		"team_membership_required":  {{annsKey, "POST", "/v1/sub-tokens", `{"forUserEmail":"nobody@example.com"}`, 404}, {annsKey, "POST", "/v1/sub-tokens", `{"forUserEmail":"gone@example.com"}`, 403}},
		"feature_unavailable":       {{annsKey, "GET", "/metrics", "", 501}, {annsKey, "POST", of + "/snapshots", "", 501}},
		"not_implemented":           {{annsKey, "POST", agents, prompt(`,"env":{"type":"pool"}`), 400}},
		"integration_not_connected": {{annsKey, "POST", agents, prompt(`,"autoCreatePR":true` + onRepo), 400}, {annsKey, "POST", agents, prompt(`,"repos":[{"url":"https://h/a","prUrl":"https://h/a/pull/1"}]`), 400}, {annsKey, "POST", "/v0/agents", prompt(`,"source":{"prUrl":"https://h/a/b/pull/1"}`), 400}},
		"validation_error":          {{annsKey, "POST", agents, `{}`, 400}, {annsKey, "GET", agents + "?limit=0", "", 400}, {annsKey, "POST", "/v0/agents", `{}`, 400}},
		"missing_body":              {{annsKey, "POST", agents, "", 400}, {annsKey, "POST", of + "/runs", " ", 400}, {annsKey, "POST", "/v0/agents", "", 400}},
		"invalid_model":             {{annsKey, "POST", agents, prompt(`,"model":{"id":"gpt-9"}`), 400}, {annsKey, "POST", "/v0/agents", prompt(`,"model":"gpt-9","source":{"repository":"https://h/a"}`), 400}},
		"invalid_branch_name":       {{annsKey, "POST", agents, prompt(`,"branchName":"a..b"` + onRepo), 400}, {annsKey, "POST", "/v0/agents", prompt(`,"source":{"repository":"https://h/a"},"target":{"branchName":"-x"}`), 400}},
		"repository_required":       {{annsKey, "POST", agents, prompt(`,"autoCreatePR":true`), 400}, {annsKey, "POST", agents, prompt(`,"env":{"type":"cloud","preset":"setup"}`), 400}, {annsKey, "POST", "/v0/agents", prompt(""), 400}, {annsKey, "POST", "/v0/agents", prompt(`,"source":{}`), 400}},
		"repository_access":         {{bensKey, "GET", "/v1/builds?repo=https://git.example.com/o/r.git", "", 404}},
		"pr_resolution_failed":      {{annsKey, "GET", agents + "?prUrl=https://h/a", "", 400}},
		"artifact_not_found":        {{annsKey, "GET", of + "/artifacts/download?path=artifacts/none", "", 404}, {annsKey, "GET", "/v0/agents/" + id + "/artifacts/download?path=/opt/cursor/artifacts/none", "", 404}},
		"agent_not_found":           {{annsKey, "GET", agents + "/" + none, "", 404}, {bensKey, "GET", of, "", 404}, {annsKey, "DELETE", agents + "/x", "", 404}, {annsKey, "GET", "/v0/agents/" + none, "", 404}},
		"run_not_found":             {{annsKey, "GET", of + "/runs/run-none", "", 404}, {annsKey, "GET", of + "/runs/" + endedRun + "/stream", "", 404}},
		"agent_busy":                {{annsKey, "POST", of + "/runs", prompt(""), 409}, {annsKey, "POST", "/v0/agents/" + id + "/followup", prompt(""), 409}},
		"agent_archived":            {{annsKey, "POST", agents + "/" + archived + "/runs", prompt(""), 409}},
		"agent_id_conflict":         {{annsKey, "POST", agents, prompt(`,"agentId":"` + id + `"`), 409}},
		"run_not_cancellable":       {{annsKey, "POST", agents + "/" + ended + "/runs/" + endedRun + "/cancel", "", 409}, {annsKey, "POST", "/v0/agents/" + ended + "/stop", "", 409}},
		"upstream_error":            {{annsKey, "GET", of + "/diff", "", 503}},
		"internal_error":            {{annsKey, "GET", agents + "/" + ended + "/diff", "", 500}},
		"environment_not_found":     {{annsKey, "GET", "/v1/environments/env-none", "", 404}, {bensKey, "GET", "/v1/environments/" + env, "", 404}, {annsKey, "POST", agents, prompt(`,"env":{"type":"cloud","name":"none"}`), 400}},
		"environment_name_conflict": {{annsKey, "POST", "/v1/environments", `{"owner":"personal","name":"web","environmentJson":"{}"}`, 409}},
		"build_not_found":           {{annsKey, "GET", "/v1/environments/" + env + "/builds/bld-none", "", 404}, {annsKey, "GET", "/v1/environments/" + env + "/builds/active", "", 404}, {annsKey, "GET", "/v1/builds/bld-none", "", 404}},
		"secret_not_found":          {{annsKey, "DELETE", "/v1/secrets/NONE", "", 404}},
		"secret_name_conflict":      {{annsKey, "PUT", "/v1/secrets/token", body(""), 409}},
		"secret_scope_conflict":     {{annsKey, "PUT", "/v1/environments/" + env + "/secrets/A", body(`,"repos":["https://git.example.com/o/other"]`), 409}},
	}
	covered := map[string]bool{}
	check := func(code string, a answer, path string, status int) {
		t.Helper()
		covered[code] = true
		if a.status != status {
			t.Errorf("%s: %s has status %d, want %d: %s", code, path, a.status, status, a.body)
			return
		}
		if strings.HasPrefix(path, "/v0/") {
			if got := a.text(t, "error"); got != code || a.text(t, "message") == "" {
				t.Errorf("%s: %s gives %s", code, path, a.body)
			}
			return
		}
		if got := a.text(t, "error.code"); got != code || a.text(t, "error.helpUrl") != h.http.URL+"/help/errors#"+code {
			t.Errorf("%s: %s gives %s", code, path, a.body)
		}
	}
	for code, some := range tries {
		for _, one := range some {
			check(code, h.callAs(one.key, one.method, one.path, one.body), one.path, one.status)
		}
	}

	// Cases that need more than one request.
	stream := of + "/runs/" + runID + "/stream"
	check("invalid_last_event_id", h.call("GET", stream, "", "Last-Event-ID", "x"), stream, 400)
	whole := h.api.Agents
	h.api.Agents = lost{whole}
	check("stream_unavailable", h.call("GET", stream, ""), stream, 500)
	h.api.Agents = whole
	for n := range secret.MaxPerOwner {
		if _, err := h.safe.Put(t.Context(), secret.Secret{Name: fmt.Sprintf("S%d", n), Type: secret.Runtime, Owner: secret.Owner{Kind: secret.OfPerson, ID: "2"}}, "a value"); err != nil {
			t.Fatal(err)
		}
	}
	check("secret_limit_reached", h.callAs(bensKey, "PUT", "/v1/secrets/ONE_MORE", body("")), "/v1/secrets", 429)
	for n := 0; ; n++ {
		a := h.callAs(bensKey, "POST", "/v1/mcp-servers", fmt.Sprintf(`{"owner":"personal","name":"s%d","url":"https://mcp.example.com/%d"}`, n, n))
		if a.status != 201 {
			check("usage_limit_exceeded", a, "/v1/mcp-servers", 429)
			break
		}
	}
	h.api.limiter.PerMinute, h.api.limiter.Now = 1, func() time.Time { return time.Unix(1e6, 0) }
	h.want(h.call("GET", "/v1/me", ""), 200)
	check("rate_limit_exceeded", h.call("GET", "/v1/me", ""), "/v1/me", 429)
	check("rate_limit_exceeded", h.call("GET", "/v0/me", ""), "/v0/me", 429)

	page := h.callAs("", "GET", helpPath, "")
	for _, c := range helpCodes {
		if !covered[c.Code] {
			t.Errorf("no request of this test gets %s", c.Code)
		}
		if page.status != http.StatusOK || !strings.Contains(string(page.body), `<h2 id="`+c.Code+`">`) || c.Meaning == "" || c.Remedy == "" {
			t.Errorf("the help page, with status %d, does not explain %s", page.status, c.Code)
		}
	}
}

// foreignCodes are the codes on which clients of the API branch.
var foreignCodes = strings.Fields(`unauthorized api_key_not_found plan_required role_forbidden feature_unavailable
	integration_not_connected validation_error missing_body invalid_model invalid_branch_name repository_required
	repository_access pr_resolution_failed artifact_not_found service_account_required agent_not_found run_not_found
	agent_busy agent_archived agent_id_conflict run_not_cancellable rate_limit_exceeded usage_limit_exceeded
	stream_expired stream_unavailable invalid_last_event_id client_cancelled not_implemented upstream_error
	internal_error environment_name_conflict environment_not_found build_not_found secret_not_found
	secret_name_ambiguous secret_scope_conflict secret_limit_reached secret_name_conflict team_admin_required
	user_required team_membership_required key_not_supported`)

// The server either returns and documents each code that clients know, or the
// test states why the code cannot occur. No handler uses a code that cannot
// occur.
func TestForeignCodes(t *testing.T) {
	var explained []string
	for _, c := range helpCodes {
		explained = append(explained, c.Code)
	}
	for _, code := range foreignCodes {
		_, unused := unusedCodes[code]
		if slices.Contains(explained, code) == unused {
			t.Errorf("%s is explained: %v; it is said why it cannot occur: %v", code, !unused, unused)
		}
	}
	for code, why := range unusedCodes {
		if !slices.Contains(foreignCodes, code) || why == "" {
			t.Errorf("%q, which cannot occur because %q, is no code of the API", code, why)
		}
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") || path == "codes.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range regexp.MustCompile(`"([a-z]+(?:_[a-z]+)+)"`).FindAllStringSubmatch(string(text), -1) {
			if _, unused := unusedCodes[m[1]]; unused {
				t.Errorf("%s gives %s, which is said not to occur", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
