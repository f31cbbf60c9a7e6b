package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/layer"
	"aloft/internal/environment"
)

// saveEnvironment saves an environment of Ann's with that id and an active
// build, and returns the build's id.
func (h *house) saveEnvironment(id string) (buildID string) {
	h.t.Helper()
	now := time.Now().UTC()
	e := environment.Saved{ID: id, UserID: 1, Name: "ann's", Repos: []string{"https://git.example.com/o/r"}, Text: "{}", VersionID: "envv-1", CreatedAt: now, UpdatedAt: now}
	b := environment.Record{ID: layer.NewID(layer.Build), EnvironmentID: id, Status: environment.Succeeded, Trigger: environment.Manual, CreatedAt: now}
	if err := h.store.PutEnvironment(h.t.Context(), e); err != nil {
		h.t.Fatal(err)
	}
	if err := h.store.AddBuild(h.t.Context(), b); err != nil {
		h.t.Fatal(err)
	}
	if err := h.store.UpdateBuild(h.t.Context(), b, true); err != nil {
		h.t.Fatal(err)
	}
	return b.ID
}

func TestEnvironments(t *testing.T) {
	h := newHouse(t)
	create := func(owner, text string) answer {
		return h.call("POST", "/v1/environments", fmt.Sprintf(`{"owner":%q,"name":"web","repos":[{"url":"https://git.example.com/o/r"}],"environmentJson":%q}`, owner, text))
	}
	made := h.want(create("personal", `{"install": "npm ci", /* why */}`), 201)
	id := made.get(t, "id").(string)
	if made.get(t, "environmentJson") != `{"install": "npm ci", /* why */}` || made.get(t, "owner") != "personal" || !strings.HasPrefix(id, "env-") {
		t.Errorf("made %s", made.body)
	}
	version := made.get(t, "versionId")
	team := h.want(create("team", `{}`), 201).get(t, "id").(string)
	for body, at := range map[string]string{
		`{"owner":"mine","name":"a","environmentJson":"{}"}`:                          "owner",
		`{"owner":"personal","name":"","environmentJson":"{}"}`:                       "name",
		`{"owner":"personal","name":"a","environmentJson":"{\"install\": 5}"}`:        "environmentJson",
		`{"owner":"personal","name":"a","repos":[{"url":""}],"environmentJson":"{}"}`: "repos[0].url",
	} {
		if a := h.call("POST", "/v1/environments", body); a.status != 400 || !strings.Contains(string(a.body), at) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}

	if a := h.call("PATCH", "/v1/environments/"+id, `{"environmentJson":"{\"install\": \"npm i\"}"}`); a.status != 204 || len(a.body) != 0 {
		t.Errorf("update: %d %s", a.status, a.body)
	}
	h.want(h.call("PATCH", "/v1/environments/"+id, `{"name":"renamed"}`), 204)
	got := h.want(h.call("GET", "/v1/environments/"+id, ""), 200)
	if got.get(t, "name") != "renamed" || got.get(t, "versionId") == version || got.get(t, "environmentJson") != `{"install": "npm i"}` {
		t.Errorf("it is %s", got.body)
	}
	if a := h.call("PATCH", "/v1/environments/"+id, fmt.Sprintf(`{"environmentJson":"{}","versionId":%q}`, version)); a.status != 409 || !strings.Contains(string(a.body), "environment_changed") {
		t.Errorf("a change of what was changed meanwhile: %d %s", a.status, a.body)
	}
	history := h.want(h.call("GET", "/v1/environments/"+id+"/history?limit=1", ""), 200)
	next, ok := history.get(t, "nextCursor").(string)
	if items := history.get(t, "items").([]any); len(items) != 1 || !ok {
		t.Fatalf("history %s", history.body)
	}
	history = h.want(h.call("GET", "/v1/environments/"+id+"/history?limit=1&cursor="+next, ""), 200)
	if first := history.get(t, "items").([]any)[0].(map[string]any); first["versionId"] != version || strings.Contains(string(history.body), "nextCursor") {
		t.Errorf("the first version is %s", history.body)
	}

	// The current version is compared with the previous version. In the first
	// version all content is new.
	first := fmt.Sprint(version)
	differs := h.want(h.call("GET", "/v1/environments/"+id+"/history/diff", ""), 200)
	if text := differs.text(t, "diff"); differs.text(t, "from") != first || differs.get(t, "to") != got.get(t, "versionId") || !strings.Contains(text, "\n-{\"install\": \"npm ci\", /* why */}") || !strings.Contains(text, "\n+{\"install\": \"npm i\"}") {
		t.Errorf("the difference is %s", differs.body)
	}
	if a := h.want(h.call("GET", "/v1/environments/"+id+"/history/diff?to="+first, ""), 200); a.text(t, "from") != "" || !strings.Contains(a.text(t, "diff"), "\n+{\"install\"") {
		t.Errorf("the first differs from nothing by %s", a.body)
	}
	if a := h.want(h.call("GET", "/v1/environments/"+id+"/history/diff?from="+first+"&to="+first, ""), 200); a.text(t, "diff") != "" {
		t.Errorf("a version differs from itself by %s", a.body)
	}
	for _, none := range []string{"from=envv-none", "to=envv-none"} {
		h.want(h.call("GET", "/v1/environments/"+id+"/history/diff?"+none, ""), 404)
	}

	// Ben can see the team's environment but cannot change it.
	list := h.want(h.callAs(bensKey, "GET", "/v1/environments", ""), 200)
	if items := list.get(t, "items").([]any); len(items) != 1 || items[0].(map[string]any)["id"] != team || strings.Contains(string(list.body), "environmentJson") {
		t.Errorf("ben sees %s", list.body)
	}
	h.want(h.callAs(bensKey, "GET", "/v1/environments/"+team, ""), 200)
	h.want(h.callAs(bensKey, "PATCH", "/v1/environments/"+team, `{"name":"x"}`), 403)
	h.want(h.callAs(bensKey, "DELETE", "/v1/environments/"+team, ""), 403)
	h.want(h.callAs(bensKey, "POST", "/v1/environments", `{"owner":"team","name":"a","environmentJson":"{}"}`), 403)
	h.want(h.callAs(bensKey, "GET", "/v1/environments/"+id, ""), 404)

	if a := h.call("GET", "/v1/environments/"+id+"/builds/active", ""); a.status != 404 || !strings.Contains(string(a.body), "build_not_found") {
		t.Errorf("no build yet: %d %s", a.status, a.body)
	}
	build := h.saveEnvironment(id)
	for _, path := range []string{"active", build} {
		if a := h.want(h.call("GET", "/v1/environments/"+id+"/builds/"+path, ""), 200); a.get(t, "id") != build || a.get(t, "status") != "SUCCEEDED" {
			t.Errorf("%s is %s", path, a.body)
		}
	}
	if a := h.want(h.call("GET", "/v1/environments/"+id+"/builds", ""), 200); len(a.get(t, "items").([]any)) != 1 {
		t.Errorf("builds %s", a.body)
	}
	h.want(h.call("GET", "/v1/environments/"+team+"/builds/"+build, ""), 404)

	h.want(h.call("DELETE", "/v1/environments/"+id, ""), 200)
	h.want(h.call("GET", "/v1/environments/"+id, ""), 404)
}

// Everyone with an agent on a repository can see the builds of the repository's
// own file. Only the user who requested a draft build can see it.
func TestBuildsOfARepository(t *testing.T) {
	h := newHouse(t)
	agentID, _ := h.begin()
	url := h.want(h.call("GET", "/v1/agents/"+agentID, ""), 200).get(t, "repos").([]any)[0].(map[string]any)["url"].(string)
	now := time.Now().UTC()
	add := func(environmentID string, why environment.Trigger) string {
		t.Helper()
		b := environment.Record{
			ID: layer.NewID(layer.Build), EnvironmentID: environmentID, Status: environment.Failed, Trigger: why, UserID: 1, CreatedAt: now,
			Commits: []environment.Commit{{URL: url, Commit: "abc"}},
		}
		if err := h.store.AddBuild(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return b.ID
	}
	own := add(environment.OfRepository(url), environment.ConfigChange)
	draft := add(environment.OfRepository(url)+"-draft-1", environment.AgentDraft)
	gone := add(environment.NewID(), environment.Manual) // builds of a saved environment that was deleted
	list := func(key string) int { return h.callAs(key, "GET", "/v1/builds?repo="+url, "").status }
	if a := h.want(h.call("GET", "/v1/builds?repo="+url, ""), 200); len(a.get(t, "items").([]any)) != 1 || !strings.Contains(string(a.body), own) {
		t.Errorf("the builds are %s", a.body)
	}
	for _, id := range []string{own, draft} {
		h.want(h.call("GET", "/v1/builds/"+id, ""), 200)
		h.want(h.callAs(bensKey, "GET", "/v1/builds/"+id, ""), 404)
	}
	h.want(h.callAs(bensKey, "GET", "/v1/builds/"+gone, ""), 404)
	if got := list(bensKey); got != 404 {
		t.Errorf("ben, who has no agent there, gets %d", got)
	}
	h.want(h.callAs(bensKey, "POST", "/v1/builds", `{"repo":"`+url+`"}`), 404)

	h.want(h.callAs(bensKey, "POST", "/v1/agents", `{"prompt":{"text":"x"},"repos":[{"url":"`+url+`"}]}`), 201)
	h.want(h.callAs(bensKey, "GET", "/v1/builds/"+own, ""), 200)
	h.want(h.callAs(bensKey, "GET", "/v1/builds/"+draft, ""), 404)
	h.want(h.callAs(bensKey, "GET", "/v1/builds/"+gone, ""), 404)
	if got := list(bensKey); got != 200 {
		t.Errorf("ben, who has an agent there, gets %d", got)
	}
	if a := h.call("GET", "/v1/builds?repo=nonsense", ""); a.status != 400 {
		t.Errorf("no URL: %d %s", a.status, a.body)
	}
}

// The route reports the same problems as the parser.
func TestCheckEnvironment(t *testing.T) {
	h := newHouse(t)
	text := "{\n  \"instal\": \"npm ci\",\n  \"ports\": [70000]\n}\n"
	body, err := json.Marshal(map[string]string{"environmentJson": text})
	if err != nil {
		t.Fatal(err)
	}
	a := h.want(h.callAs(viewersKey, "POST", "/v1/environment-check", string(body)), 200)
	type finding struct {
		Line, Column                    int
		Key, Severity, Message, Instead string
	}
	var got struct {
		Findings []finding
		Explain  []any
	}
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Fatal(err)
	}
	e, want := environment.Parse(environment.Files[0], []byte(text))
	if len(want) != 2 || len(got.Findings) != len(want) || len(got.Explain) != len(e.Explain()) {
		t.Fatalf("%s, want %v", a.body, want)
	}
	for i, f := range want {
		if g := got.Findings[i]; g != (finding{Line: f.Line, Column: f.Column, Key: f.Key, Severity: string(f.Severity), Message: f.Message, Instead: f.Instead}) {
			t.Errorf("finding %d is %+v, want %+v", i, g, f)
		}
	}
	for _, bad := range []string{`{}`, `{"environmentJson":null}`, `{"environmentJson":"{}","path":"../x"}`} {
		h.want(h.call("POST", "/v1/environment-check", bad), 400)
	}
	if a := h.want(h.callAs("", "GET", "/v1/environment-schema", ""), 200); string(a.body) != string(environment.Schema()) || a.header.Get("Content-Type") != "application/schema+json" {
		t.Errorf("the schema is %s: %.80s", a.header.Get("Content-Type"), a.body)
	}
}

// env.name selects the caller's own environment of that name, or else the
// team's. Only current names count. An ambiguous name is rejected.
func TestEnvironmentByName(t *testing.T) {
	h := newHouse(t)
	save := func(key, owner, name, repo string) string {
		return h.want(h.callAs(key, "POST", "/v1/environments", fmt.Sprintf(`{"owner":%q,"name":%q,"repos":[{"url":%q}],"environmentJson":"{}"}`, owner, name, repo)), 201).text(t, "id")
	}
	const repo = "https://git.example.com/o/r"
	own, team, shadowed := save(annsKey, "personal", "web", repo), save(annsKey, "team", "shared", repo), save(annsKey, "team", "web", repo)
	bens := save(bensKey, "personal", "bens", repo)
	create := func(key, env, repos string) answer {
		return h.callAs(key, "POST", "/v1/agents", fmt.Sprintf(`{"prompt":{"text":"Look"},"env":{"type":"cloud","name":%q}%s}`, env, repos))
	}
	of := func(a answer) string { return h.created(h.want(a, 201).text(t, "agent.id")).Env.ID }
	onRepo := fmt.Sprintf(`,"repos":[{"url":%q}]`, repo)
	for _, tt := range []struct{ key, name, want string }{
		{annsKey, "web", own}, {annsKey, "shared", team}, {bensKey, "web", shadowed}, {bensKey, "shared", team}, {bensKey, "bens", bens},
	} {
		if got := of(create(tt.key, tt.name, onRepo)); got != tt.want {
			t.Errorf("%s of %s is %s, want %s", tt.name, tt.key, got, tt.want)
		}
	}
	a := create(annsKey, "web", "") // the repositories come from the environment
	if of(a) != own || len(a.get(t, "agent.repos").([]any)) != 1 || a.text(t, "agent.env.name") != "web" {
		t.Errorf("without repos: %s", a.body)
	}
	refused := func(a answer, status int, code string) {
		t.Helper()
		if h.want(a, status); a.text(t, "error.code") != code {
			t.Errorf("refused with %s, want %s", a.body, code)
		}
	}
	refused(create(annsKey, "bens", onRepo), 400, "environment_not_found")
	refused(create(annsKey, "Web", onRepo), 400, "environment_not_found")
	refused(create(annsKey, "web", `,"repos":[{"url":"https://git.example.com/o/other"}]`), 400, "validation_error")
	refused(create(annsKey, "web", `,"repos":[{"url":"https://git.example.com/o/r"},{"url":"https://git.example.com/o/other"}]`), 400, "validation_error")
	refused(h.call("GET", "/v1/environments/env-none", ""), 404, "environment_not_found")
	refused(h.call("POST", "/v1/environments", `{"owner":"personal","name":"web","environmentJson":"{}"}`), 409, "environment_name_conflict")
	refused(h.call("PATCH", "/v1/environments/"+team, `{"name":"web"}`), 409, "environment_name_conflict")
	h.want(h.call("PATCH", "/v1/environments/"+own, `{"name":"web","environmentJson":"{\"start\":\"true\"}"}`), 204)
	h.want(h.call("PATCH", "/v1/environments/"+own, `{"name":"front"}`), 204)
	if got := of(create(annsKey, "web", onRepo)); got != shadowed {
		t.Errorf("after the own one was renamed web is %s, want the team's", got)
	}
	// Two environments may have the same name if they were created before names
	// had to be unique.
	now := time.Now().UTC()
	twin := environment.Saved{ID: environment.NewID(), UserID: 1, Name: "front", Text: "{}", VersionID: environment.NewVersionID(), CreatedAt: now, UpdatedAt: now}
	if err := h.store.PutEnvironment(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	refused(create(annsKey, "front", onRepo), 400, "environment_not_found")
}
