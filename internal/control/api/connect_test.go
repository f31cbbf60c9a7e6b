package api

import (
	"context"
	"strings"
	"sync"
	"testing"

	"aloft/internal/control/api/connect"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// connecting is a server that accepts one key and one token.
type connecting struct {
	connect.Server
	mu      sync.Mutex
	tried   []any
	reloads int
}

const goodKey = "sk-good-key-0123456789"

func (c *connecting) Effective() connect.Effective {
	return connect.Effective{
		Models:     []connect.Source{{ID: "house", Provider: "anthropic", Name: "claude-sonnet-4-5"}, {ID: "mine", Provider: "openai", Name: "m", URL: "http://127.0.0.1:1/v1", Connected: true}},
		GitServers: []connect.Source{{ID: "git.example.com", URL: "https://git.example.com", Forge: "gitea"}},
	}
}

func (c *connecting) TryModel(_ context.Context, m connect.Model) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried = append(c.tried, m)
	if m.Key != goodKey {
		return fault.Invalid("the model did not answer: invalid x-api-key").Named("invalid_model")
	}
	return nil
}

func (c *connecting) TryGitServer(_ context.Context, g connect.GitServer) (connect.Grant, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried = append(c.tried, g)
	if g.Token != goodKey {
		return connect.Grant{}, fault.Invalid("the token is not valid")
	}
	return connect.Grant{Login: "ann", Lacks: []string{"repo"}}, nil
}

func (c *connecting) LocalModel(context.Context) (connect.Model, bool) {
	return connect.Model{Name: "qwen3", BaseURL: "http://127.0.0.1:11434/v1"}, true
}

func (c *connecting) Export() (string, error) { return "models: []\n", nil }

func (c *connecting) Reload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reloads++
}

// connected connects the model or git server on which the route acts, and
// returns its name.
func (h *house) connected(path, kind, name string) string {
	h.t.Helper()
	if strings.HasPrefix(path, "/v1/server/") {
		if _, err := h.safe.Keep(h.t.Context(), secret.Owner{Kind: secret.OfServer, ID: kind}, name, "{}"); err != nil {
			h.t.Fatal(err)
		}
	}
	return name
}

func TestConnectModel(t *testing.T) {
	h := newHouse(t)
	c := &h.connecting
	for path, in := range map[string][2]string{
		"/v1/server/models/claude":   {`{"provider":"anthropic","apiKey":"sk-bad"}`, "did not answer"},
		"/v1/server/models/gpt":      {`{"provider":"openai"}`, "needs a key"},
		"/v1/server/models/a%2Fb":    {`{"provider":"openai","apiKey":"` + goodKey + `"}`, "not an id"},
		"/v1/server/models/a%5Bb%5D": {`{"provider":"openai","apiKey":"` + goodKey + `"}`, "not an id"},
		"/v1/server/models/x":        {`{"provider":"scripted","apiKey":"` + goodKey + `"}`, "must be anthropic"},
		"/v1/server/models/y":        {`{"provider":"openai","baseUrl":"ftp://h/v1","apiKey":"` + goodKey + `"}`, "baseUrl"},
		"/v1/server/models/z":        {`{"provider":"openai","baseUrl":"http://u:p@h/v1"}`, "baseUrl"},
	} {
		if a := h.callAs(adminsKey, "PUT", path, in[0]); a.status != 400 || !strings.Contains(string(a.body), in[1]) {
			t.Errorf("%s %s: %d %s", path, in[0], a.status, a.body)
		}
	}
	h.want(h.callAs(adminsKey, "PUT", "/v1/server/models/house", `{"provider":"anthropic","apiKey":"`+goodKey+`"}`), 409)
	if models, _, err := connect.Load(t.Context(), h.safe); err != nil || len(models) > 0 || c.reloads > 0 {
		t.Fatalf("after refusals: %+v, %v, %d reloads", models, err, c.reloads)
	}

	h.want(h.callAs(adminsKey, "PUT", "/v1/server/models/claude-sonnet-4-5", `{"provider":"anthropic","apiKey":" `+goodKey+`\n"}`), 200)
	h.want(h.callAs(adminsKey, "PUT", "/v1/server/models/local", `{"provider":"openai","name":"qwen3:8b","baseUrl":"http://127.0.0.1:11434/v1/","apiKey":"`+goodKey+`"}`), 200)
	models, _, err := connect.Load(t.Context(), h.safe)
	want := []connect.Model{
		{ID: "claude-sonnet-4-5", Provider: "anthropic", Name: "claude-sonnet-4-5", Key: goodKey},
		{ID: "local", Provider: "openai", API: "chat", Name: "qwen3:8b", BaseURL: "http://127.0.0.1:11434/v1", Key: goodKey},
	}
	if err != nil || len(models) != 2 || models[0] != want[0] || models[1] != want[1] || c.reloads != 2 {
		t.Errorf("connected %+v, %v, %d reloads", models, err, c.reloads)
	}
	h.want(h.callAs(adminsKey, "DELETE", "/v1/server/models/local", ""), 200)
	h.want(h.callAs(adminsKey, "DELETE", "/v1/server/models/local", ""), 404)
	if models, _, _ := connect.Load(t.Context(), h.safe); len(models) != 1 || c.reloads != 3 {
		t.Errorf("left: %+v, %d reloads", models, c.reloads)
	}
	if a := h.want(h.callAs(adminsKey, "GET", "/v1/audit", ""), 200); !strings.Contains(string(a.body), "connectModel") || strings.Contains(string(a.body), goodKey) {
		t.Errorf("the audit log: %s", a.body)
	}
	if strings.Contains(h.log.String(), goodKey) {
		t.Error("the key is in the log")
	}
}

func TestConnectGitServer(t *testing.T) {
	h := newHouse(t)
	for path, in := range map[string]string{
		"/v1/server/git-servers/github.com":          `{"token":"bad"}`,
		"/v1/server/git-servers/a%2Fb":               `{"token":"` + goodKey + `"}`,
		"/v1/server/git-servers/user@git.example.de": `{"token":"` + goodKey + `"}`,
		"/v1/server/git-servers/.:443":               `{"token":"` + goodKey + `"}`,
		"/v1/server/git-servers/gitlab.com":          `{"token":"` + goodKey + `","forge":"svn"}`,
	} {
		h.want(h.callAs(adminsKey, "PUT", path, in), 400)
	}
	h.want(h.callAs(adminsKey, "PUT", "/v1/server/git-servers/Git.Example.com", `{"token":"`+goodKey+`"}`), 409)
	for _, spelling := range []string{"git.example.com:443", "git.example.com:0443", "git.example.com.", "git.example.com.:443", "git.example.com:"} {
		h.want(h.callAs(adminsKey, "PUT", "/v1/server/git-servers/"+spelling, `{"token":"`+goodKey+`"}`), 409)
	}
	a := h.want(h.callAs(adminsKey, "PUT", "/v1/server/git-servers/git.acme.test:3000", `{"scheme":"http","forge":"gitea","token":"`+goodKey+`"}`), 200)
	if a.text(t, "login") != "ann" || a.text(t, "id") != "git.acme.test:3000" || !strings.Contains(string(a.body), `"lacks":["repo"]`) {
		t.Errorf("reply %s", a.body)
	}
	_, servers, err := connect.Load(t.Context(), h.safe)
	want := connect.GitServer{Host: "git.acme.test:3000", URL: "http://git.acme.test:3000", Forge: "gitea", Token: goodKey}
	if err != nil || len(servers) != 1 || servers[0] != want || h.connecting.reloads != 1 {
		t.Errorf("connected %+v, %v", servers, err)
	}
	h.want(h.callAs(adminsKey, "DELETE", "/v1/server/git-servers/git.acme.test:3000", ""), 200)
	if _, servers, _ := connect.Load(t.Context(), h.safe); len(servers) > 0 {
		t.Errorf("left: %+v", servers)
	}
}

// The server's settings contain no key. They list a local model server that is
// not in use.
func TestServerShown(t *testing.T) {
	h := newHouse(t)
	a := h.want(h.callAs(adminsKey, "GET", "/v1/server", ""), 200)
	for _, want := range []string{`"id":"house","provider":"anthropic","name":"claude-sonnet-4-5","source":"configuration"`, `"source":"connected"`, `"localModel":{"name":"qwen3"`, `"host":"git.example.com"`} {
		if !strings.Contains(string(a.body), want) {
			t.Errorf("no %s in %s", want, a.body)
		}
	}
	if a := h.want(h.callAs(adminsKey, "GET", "/v1/server/configuration", ""), 200); string(a.body) != "models: []\n" {
		t.Errorf("exported %s", a.body)
	}
}
