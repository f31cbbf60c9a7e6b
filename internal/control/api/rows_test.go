package api

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/machines"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/artifact"
	"aloft/internal/control/layer"
	"aloft/internal/conversation"
	"aloft/internal/environment"
	"aloft/internal/mcp"
	"aloft/internal/policy"
	"aloft/internal/rule"
	"aloft/internal/terminal"
)

// Which users see the rows of a list:
const (
	mine     = "mine"     // the caller's rows, or those of the agent or environment in the path
	everyone = "everyone" // the same rows for all members
	admins   = "admins"   // all rows, for admins only
	single   = "single"   // one resource, whose id is in the path; see [TestWhoMayDoWhat]
)

// rows gives, for every list, the users whose rows the list shows, and the
// query that returns the most rows. [TestWhoseRows] fails if a list is missing
// here.
var rows = map[string]struct{ whose, query string }{
	"GET /v1/agents":                             {mine, "?all=true&includeArchived=true"},
	"GET /v1/agents/{id}":                        {single, ""},
	"GET /v1/agents/{id}/approvals":              {mine, ""},
	"GET /v1/agents/{id}/artifacts":              {mine, ""},
	"GET /v1/agents/{id}/connections":            {mine, ""},
	"GET /v1/agents/{id}/context":                {mine, ""},
	"GET /v1/agents/{id}/environment":            {single, ""},
	"GET /v1/agents/{id}/events":                 {mine, ""},
	"GET /v1/agents/{id}/files":                  {mine, "?path=."},
	"GET /v1/agents/{id}/findings":               {mine, ""},
	"GET /v1/agents/{id}/journal":                {mine, ""},
	"GET /v1/agents/{id}/mcp-servers":            {mine, ""},
	"GET /v1/agents/{id}/ports":                  {mine, ""},
	"GET /v1/agents/{id}/pull-requests":          {mine, ""},
	"GET /v1/agents/{id}/queue":                  {mine, ""},
	"GET /v1/agents/{id}/runs":                   {mine, ""},
	"GET /v1/agents/{id}/terminals":              {mine, ""},
	"GET /v1/agents/{id}/usage":                  {mine, ""},
	"GET /v1/agents/{id}/webhook-deliveries":     {mine, ""},
	"GET /v1/approvals":                          {mine, ""},
	"GET /v1/audit":                              {admins, ""},
	"GET /v1/automations":                        {mine, "?all=true"},
	"GET /v1/automations/{automationId}/starts":  {mine, ""},
	"GET /v1/builds":                             {mine, "?repo=https://git.example.com/{mark}/r"},
	"GET /v1/builds/{buildId}":                   {single, ""},
	"GET /v1/environments":                       {mine, ""},
	"GET /v1/environments/{id}/builds":           {mine, ""},
	"GET /v1/environments/{id}/builds/{buildId}": {single, ""},
	"GET /v1/environments/{id}/history":          {mine, ""},
	"GET /v1/events":                             {admins, ""},
	"GET /v1/server":                             {single, ""},
	"GET /v1/mcp-servers":                        {mine, ""},
	"GET /v1/memories":                           {everyone, ""}, // those of a repository, for all who have access to it; see TestMemoriesOfARepository
	"GET /v1/team/skills/versions":               {everyone, ""},
	"GET /v1/me/keys":                            {mine, ""},
	"GET /v1/me/passkeys":                        {mine, ""},
	"GET /v1/members":                            {everyone, ""},
	"GET /v1/models":                             {everyone, ""},
	"GET /v1/repositories":                       {mine, ""},
	"GET /v1/repository-access":                  {mine, ""},
	"GET /v1/rules/{owner}/{name}":               {single, ""},
	"GET /v1/secrets":                            {mine, ""},
	"GET /v1/settings":                           {everyone, ""},
	"GET /v1/snapshots":                          {mine, ""},
	"GET /v1/usage":                              {mine, ""},
	"GET /v1/usage/disk":                         {mine, ""},
	"GET /v0/agents":                             {mine, ""},
	"GET /v0/agents/{id}/artifacts":              {mine, ""},
	"GET /v0/agents/{id}/conversation":           {mine, ""},
	"GET /v0/models":                             {everyone, ""},
	"GET /v0/repositories":                       {mine, ""},
}

// isList reports whether a route's reply has rows.
func isList(rt rest.Route) bool {
	if rt.Method != http.MethodGet {
		return false
	}
	if rt.Out == nil {
		return rt.Media == rest.JSONLines
	}
	of := reflect.TypeOf(rt.Out)
	for i := range of.NumField() {
		if f := of.Field(i); f.IsExported() && f.Type.Kind() == reflect.Slice {
			return true
		}
	}
	return false
}

// A resident is a member who has one resource of each kind. Every resource
// contains the member's mark.
type resident struct {
	key, mark  string
	userID     int64
	agent, run string
	env, build string
	automation string
}

// settleIn creates a member with one resource of each kind.
func (h *house) settleIn(mark string) *resident {
	h.t.Helper()
	r := &resident{key: "aloft_" + mark, mark: mark}
	u, err := h.store.AddUser(h.t.Context(), account.User{Email: mark + "@example.com", FirstName: mark, Role: account.Member})
	if err == nil {
		_, err = h.store.AddKey(h.t.Context(), account.APIKey{Name: mark + " key", UserID: u.ID, Hash: account.HashKey(r.key)})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	r.userID = u.ID
	repo := "https://git.example.com/" + mark + "/r"
	made := h.want(h.callAs(r.key, "POST", "/v1/agents", `{"name":"`+mark+`","prompt":{"text":"`+mark+`"},"repos":[{"url":"`+repo+`"}],"branchName":"`+mark+`",
		"webhook":{"url":"`+hookURL+`","secret":"`+hookKey+`"}}`), 201)
	r.agent, r.run = made.text(h.t, "agent.id"), made.text(h.t, "run.id")
	h.append(r.agent, r.run, &agent.RunStarted{}, &agent.RulesFound{Set: rule.Set{Rules: []rule.Rule{{Source: mark, From: rule.Repository, When: rule.Always, Text: mark}}}},
		&agent.TurnReplied{Message: conversation.Text(conversation.Assistant, mark), Model: "house", Usage: conversation.Usage{Input: 7}},
		&agent.FindingsReported{Findings: []agent.Finding{{ID: "F-1", Path: mark, Line: 1, EndLine: 1, Severity: agent.High, Title: mark, Body: mark}}},
		&agent.Pushed{RepoURL: repo, Branch: mark, Commit: "c0ffee"},
		&agent.PullRequestOpened{By: agent.PullByRun, PullRequest: agent.PullRequest{RepoURL: repo, Branch: mark, URL: repo + "/pulls/1", Number: 1, Title: mark, State: "open"}},
		&agent.ApprovalAsked{Approval: agent.Approval{ID: "apr-" + mark, RunID: r.run, CallID: "c", Tool: "Shell", Subject: mark, Why: "a rule", AskedAt: time.Now()}})
	h.append(r.agent, "", &agent.Queued{RunID: agent.NewRunID(), UserID: r.userID, RunCreated: agent.RunCreated{Prompt: conversation.Text(conversation.User, mark)}})
	h.want(h.callAs(r.key, "PUT", "/v1/secrets/"+strings.ToUpper(mark), `{"value":"0123456789"}`), 200)
	env := h.want(h.callAs(r.key, "POST", "/v1/environments", `{"owner":"personal","name":"`+mark+`","repos":[{"url":"`+repo+`"}],"environmentJson":"{\"install\":\"echo `+mark+`\"}"}`), 201)
	r.env = env.text(h.t, "id")
	h.want(h.callAs(r.key, "PATCH", "/v1/environments/"+r.env, `{"environmentJson":"{\"install\":\"echo `+mark+` again\"}"}`), 204)
	for _, of := range []string{r.env, environment.OfRepository(repo)} {
		b := environment.Record{ID: layer.NewID(layer.Build), EnvironmentID: of, Status: environment.Succeeded, Trigger: environment.Manual, Message: mark, UserID: r.userID, CreatedAt: time.Now().UTC()}
		if err == nil {
			err = h.store.AddBuild(h.t.Context(), b)
		}
		r.build = b.ID
	}
	h.want(h.call("PATCH", "/v1/repository-access", `{"members":[{"userId":`+strconv.FormatInt(r.userID, 10)+`,"repositories":["git.example.com/`+mark+`/*"]}]}`), 200)
	h.eventOf("{eventId}")
	r.automation = h.automationOf(r.userID, "{automationId}", mark)
	h.snapshotOf(r.userID, "git.example.com/"+mark+"/r", time.Now())
	if err == nil {
		err = h.store.PutPasskey(h.t.Context(), account.Passkey{ID: []byte(mark), UserID: r.userID, Name: mark, Credential: []byte("{}")})
	}
	if err == nil {
		_, err = h.api.mcpservers.MCP.Add(h.t.Context(), r.userID, false, mcp.Server{Name: mark, URL: tickets(h.t, "")})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// path returns the path of a list, with the ids of the resident's own resources filled
// in.
func (r *resident) path(rt rest.Route, query string) string {
	id := r.agent
	if strings.HasPrefix(rt.Path, "/v1/environments/") {
		id = r.env
	}
	return strings.NewReplacer("{automationId}", r.automation, "{id}", id, "{mark}", r.mark).Replace(rt.Path + query)
}

// has reports whether a reply mentions any of the resident's resources.
func (r *resident) has(a answer) bool {
	text := strings.ToLower(string(a.body))
	for _, m := range []string{r.mark, r.agent, r.run, r.env, r.build} {
		if strings.Contains(text, m) {
			return true
		}
	}
	return false
}

// labelled returns machines, artifacts and connections that contain the agent's
// id, so that a list shows to whom they belong.
type labelled struct {
	machines.Machines
	t *testing.T
}

func (l labelled) Ports(_ context.Context, agentID string) ([]machines.Port, error) {
	return []machines.Port{{Port: 80, Program: agentID}}, nil
}

func (l labelled) Terminals(_ context.Context, agentID string) ([]terminal.Terminal, error) {
	return []terminal.Terminal{{Name: agentID}}, nil
}

func (l labelled) Files(_ context.Context, agentID string) (machines.Files, error) {
	dir := l.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, agentID), nil, 0o600); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	return farFiles{Root: root, closed: new(atomic.Int64)}, err
}

type labelledArtifacts struct{}

func (labelledArtifacts) List(_ context.Context, agentID string) ([]artifact.File, error) {
	return []artifact.File{{Name: agentID}}, nil
}

func (labelledArtifacts) Open(context.Context, string, string) (io.ReadSeekCloser, artifact.File, error) {
	return nil, artifact.File{}, os.ErrNotExist
}

func (labelledArtifacts) Remove(context.Context, string) error { return nil }

type labelledWork struct{ *work }

func (labelledWork) Connections(_ context.Context, agentID string, _ uint64, _ int) (policy.Connections, error) {
	return policy.Connections{Ended: []policy.Connection{{Seq: 1, Network: "tcp", Address: "192.0.2.1:443", Domain: agentID}}}, nil
}

// TestWhoseRows calls every list as two members who each have one resource of
// every kind. Each must see their own rows and none of the other member's.
func TestWhoseRows(t *testing.T) {
	h := newHouse(t)
	h.api.machines.Machines, h.api.machines.Artifacts, h.api.Work = labelled{t: t}, labelledArtifacts{}, labelledWork{h.work}
	eve, fay := h.settleIn("everow"), h.settleIn("fayrow")
	seen := map[string]bool{}
	for _, rt := range h.api.routes() {
		name := rt.Method + " " + rt.Path
		if !isList(rt) {
			continue
		}
		seen[name] = true
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			h.t = t
			list, ok := rows[name]
			if !ok {
				t.Fatal("say in rows whose rows this list has")
			}
			get := func(key string, r *resident, status int) answer {
				return h.want(h.callAs(key, "GET", r.path(rt, list.query), ""), status)
			}
			switch list.whose {
			case mine:
				for one, other := range map[*resident]*resident{eve: fay, fay: eve} {
					a := get(one.key, one, 200)
					if !one.has(a) {
						t.Errorf("%s does not see their own: %s", one.mark, a.body)
					}
					if other.has(a) {
						t.Errorf("%s sees what %s has: %s", one.mark, other.mark, a.body)
					}
				}
				if asked := strings.ReplaceAll(list.query, "?", "&"); !strings.Contains(rt.Path, "{") {
					a := h.callAs(eve.key, "GET", rt.Path+"?user="+strconv.FormatInt(fay.userID, 10)+strings.ReplaceAll(asked, "{mark}", eve.mark), "")
					if fay.has(a) {
						t.Errorf("asked for by number, the other's rows come: %s", a.body)
					}
				}
			case everyone:
				if a, b := get(eve.key, eve, 200), get(fay.key, fay, 200); string(a.body) != string(b.body) {
					t.Errorf("%s is not %s", a.body, b.body)
				}
			case admins:
				get(eve.key, eve, 403)
				if a := get(adminsKey, eve, 200); len(a.get(t, "items").([]any)) == 0 {
					t.Errorf("an admin sees nothing: %s", a.body)
				}
			}
		})
	}
	for name := range rows {
		if !seen[name] {
			t.Errorf("there is no list %s", name)
		}
	}
}
