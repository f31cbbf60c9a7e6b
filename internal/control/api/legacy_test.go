package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"aloft/internal/agent"
)

// legacyError checks that an error has the shape {"error", "message"}, which
// the text of the specification describes. The schema in rest-v0.json
// contradicts that text: there, error is an object.
func legacyError(body []byte) error {
	var e struct{ Error, Message *string }
	if err := json.Unmarshal(body, &e); err != nil {
		return err
	}
	if e.Error == nil || e.Message == nil || *e.Error == "" || *e.Message == "" {
		return errors.New("an error of /v0 has the strings error and message")
	}
	return nil
}

// A stranger is a client of /v0 that was written from the schemas alone.
type stranger struct{ base, key string }

type strangersAgent struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Source struct {
		Repository string `json:"repository"`
		Ref        string `json:"ref"`
	} `json:"source"`
	Target struct {
		BranchName   string `json:"branchName"`
		URL          string `json:"url"`
		PRURL        string `json:"prUrl"`
		AutoCreatePR bool   `json:"autoCreatePr"`
	} `json:"target"`
	Summary   string `json:"summary"`
	CreatedAt string `json:"createdAt"`
}

// do sends a request, checks its status and decodes the reply.
func (s stranger) do(t *testing.T, method, path, body string, want int, out any, header ...string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(s.key, "")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != want {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, resp.StatusCode, want, data)
	}
	if err := conforms(method, path, answer{resp.StatusCode, resp.Header, data, len(data)}); err != nil {
		t.Errorf("%s %s: %s: %v", method, path, data, err)
	}
	if out == nil {
		return
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields() // the client knows every field
	if err := d.Decode(out); err != nil {
		t.Fatalf("%s %s: %s: %v", method, path, data, err)
	}
}

func TestForeignClient(t *testing.T) {
	h := newHouse(t)
	s := stranger{h.http.URL, annsKey}
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n and so on"))

	var me struct{ APIKeyName, CreatedAt, UserEmail string }
	s.do(t, "GET", "/v0/me", "", 200, &me)
	var models struct{ Models []string }
	s.do(t, "GET", "/v0/models", "", 200, &models)
	if me.UserEmail != "anns@example.com" || len(models.Models) != 2 || models.Models[0] != "house" {
		t.Errorf("me %+v, models %v", me, models)
	}

	request := fmt.Sprintf(`{"prompt":{"text":"Mend it","images":[{"data":%q,"dimension":{"width":1,"height":1}},{"data":"data:image/png;base64,%s"}]},
		"model":"other","source":{"repository":"https://git.example.com/o/r","ref":"main"},
		"target":{"autoCreatePr":false,"branchName":"mended","autoBranch":true,"openAsCursorGithubApp":false,"skipReviewerRequest":true}}`, png, png)
	var made, again, shown strangersAgent
	s.do(t, "POST", "/v0/agents", request, 201, &made, "Idempotency-Key", "k1")
	if made.Status != "CREATING" || made.Source.Ref != "main" || made.Target.BranchName != "mended" || made.Target.URL == "" {
		t.Errorf("made %+v", made)
	}
	h.restart()
	s.base = h.http.URL
	s.do(t, "POST", "/v0/agents", request, 201, &again, "Idempotency-Key", "k1")
	if again != made {
		t.Errorf("the repeated request made %+v, the first %+v", again, made)
	}
	path := "/v0/agents/" + made.ID
	events, err := h.store.Read(t.Context(), made.ID, 0, 2)
	if err != nil || len(events[1].Body.(*agent.RunCreated).Prompt.Blocks) != 3 || events[0].Body.(*agent.Created).Model != "other" {
		t.Fatalf("journal %v, %v", events, err)
	}
	s.do(t, "POST", path+"/followup", `{"prompt":{"text":"more"}}`, 409, nil)
	h.append(made.ID, events[1].RunID, append(someWork(), finish())...)
	s.do(t, "GET", path, "", 200, &shown)
	if shown.Status != "FINISHED" || shown.Summary != "Done." || shown.Target.BranchName != "aloft/x" {
		t.Errorf("finished %+v", shown)
	}
	var id, id2 struct{ ID string }
	for range 2 {
		s.do(t, "POST", path+"/followup", `{"prompt":{"text":"more"}}`, 200, &id, "Idempotency-Key", "k2")
	}
	s.do(t, "POST", path+"/stop", "", 200, &id2)
	if id.ID != made.ID || id2.ID != made.ID {
		t.Errorf("follow-up %s, stop %s", id.ID, id2.ID)
	}
	agents, err := h.store.Agent(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	h.append(made.ID, agents.LatestRunID, &agent.RunEnded{Status: agent.Cancelled})
	s.do(t, "POST", path+"/stop", "", 409, nil)
	s.do(t, "GET", path, "", 200, &shown)
	if shown.Status != "FINISHED" {
		t.Errorf("stopped: %s", shown.Status)
	}

	var talk struct {
		ID       string
		Messages []struct{ ID, Type, Text string }
	}
	s.do(t, "GET", path+"/conversation", "", 200, &talk)
	var said []string
	for _, m := range talk.Messages {
		said = append(said, m.Type+" "+m.Text)
	}
	if got := strings.Join(said, "; "); got != "user_message Mend it; assistant_message I look at it.; assistant_message Done.; user_message more" {
		t.Errorf("conversation: %s", got)
	}

	var second strangersAgent
	s.do(t, "POST", "/v0/agents", `{"prompt":{"text":"Other"},"source":{"repository":"git@git.example.com:a/b/c.git"},"target":{"autoBranch":false}}`, 201, &second)
	if second.Target.BranchName != "" {
		t.Errorf("it works on a branch of its own: %+v", second)
	}
	var page struct {
		Agents     []strangersAgent
		NextCursor string
	}
	s.do(t, "GET", "/v0/agents?limit=1", "", 200, &page)
	if len(page.Agents) != 1 || page.Agents[0].ID != second.ID || page.NextCursor == "" {
		t.Errorf("first page %+v", page)
	}
	cursor := page.NextCursor
	page.NextCursor, page.Agents = "", nil
	s.do(t, "GET", "/v0/agents?limit=1&cursor="+cursor, "", 200, &page)
	if len(page.Agents) != 1 || page.Agents[0].ID != made.ID || page.NextCursor != "" {
		t.Errorf("last page %+v", page)
	}

	var repos struct {
		Repositories []struct{ Owner, Name, Repository string }
	}
	s.do(t, "GET", "/v0/repositories", "", 200, &repos)
	if got := fmt.Sprint(repos.Repositories); got != "[{a/b c ssh://git@git.example.com/a/b/c.git} {o r https://git.example.com/o/r}]" {
		t.Errorf("repositories %s", got)
	}
	h.keep(made.ID, inMachine{"shot.png": "a picture"})
	s.base = h.http.URL
	var files struct {
		Artifacts []struct {
			AbsolutePath, UpdatedAt string
			SizeBytes               int64
		}
	}
	s.do(t, "GET", path+"/artifacts", "", 200, &files)
	var at struct{ URL, ExpiresAt string }
	if len(files.Artifacts) != 1 || files.Artifacts[0].AbsolutePath != "/opt/cursor/artifacts/shot.png" {
		t.Fatalf("artifacts %+v", files)
	}
	s.do(t, "GET", path+"/artifacts/download?path="+files.Artifacts[0].AbsolutePath, "", 200, &at)
	if !strings.Contains(at.URL, "signature=") {
		t.Errorf("download %+v", at)
	}
	s.do(t, "DELETE", path, "", 200, &id)
	s.do(t, "GET", path, "", 404, nil)
	stranger{h.http.URL, bensKey}.do(t, "GET", "/v0/agents/"+second.ID, "", 404, nil)
	stranger{h.http.URL, "aloft_wrong"}.do(t, "GET", "/v0/me", "", 401, nil)
}

// Errors in replies to /v0 requests use the names that /v0 has for the fields.
func TestLegacyBadInput(t *testing.T) {
	h := newHouse(t)
	source := func(fields string) string { return `{"prompt":{"text":"x"},"source":` + fields + `}` }
	target := func(fields string) string {
		return `{"prompt":{"text":"x"},"source":{"repository":"https://h/a"},"target":{` + fields + `}}`
	}
	for body, want := range map[string]string{
		``:                        "empty",
		`{}`:                      "prompt",
		`{"prompt":{"text":"x"}}`: "source",
		`{"prompt":{"text":""},"source":{"repository":"https://h/a"}}`:                                         "prompt.text",
		`{"prompt":{"text":"x","images":[{}]},"source":{"repository":"https://h/a"}}`:                          "prompt.images[0].data",
		`{"prompt":{"text":"x","images":[{"data":"%"}]},"source":{"repository":"https://h/a"}}`:                "prompt.images[0].data",
		`{"prompt":{"text":"x","images":[{"data":"aGVsbG8gd29ybGQ="}]},"source":{"repository":"https://h/a"}}`: "prompt.images[0].data: is \"text/plain",
		`{"prompt":{"text":"x"},"model":"gpt-9","source":{"repository":"https://h/a"}}`:                        "no model",
		source(`{}`):                   "source.repository",
		source(`{"repository":"--x"}`): "source.repository",
		source(`{"repository":"https://h/a","ref":"-x"}`): "source.ref",
		source(`{"prUrl":"https://h/a/1"}`):               "source.prUrl",
		target(`"branchName":"a..b"`):                     "target.branchName",
		target(`"branchName":"a","autoBranch":false`):     "target.branchName",
		target(`"autoCreatePr":"yes"`):                    "target.autoCreatePr",
		target(`"openAsCursorGithubApp":true`):            "target.openAsCursorGithubApp: no forge is configured on this server",
	} {
		a := h.want(h.call("POST", "/v0/agents", body), 400)
		if msg := a.text(t, "message"); !strings.Contains(msg, want) || strings.Contains(msg, "repos[") {
			t.Errorf("%s: %q does not say %q", body, msg, want)
		}
	}
	h.want(h.call("GET", "/v0/agents?limit=0", ""), 400)
	h.want(h.call("GET", "/v0/agents?cursor=x", ""), 400)
	h.want(h.call("GET", "/v0/agents/bc-1", ""), 404)
	h.want(h.call("GET", "/v0/agents/a%2Fb", ""), 404)
	h.want(h.call("GET", "/v0/nothing", ""), 404)
	h.want(h.call("PATCH", "/v0/me", ""), 405)
	if a := h.call("GET", "/v0/agents", ""); len(a.get(t, "agents").([]any)) != 0 {
		t.Errorf("a refused request left an agent: %s", a.body)
	}
}

// The table contains every operation of rest-v0.json with its success status,
// and the request types contain every field.
func TestLegacyHasTheSpecification(t *testing.T) {
	spec, err := legacySpec()
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t)
	var ours struct {
		Paths      map[string]map[string]struct{ Responses map[string]any }
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(h.want(h.callAs("", "GET", "/openapi.json", ""), 200).body, &ours); err != nil {
		t.Fatal(err)
	}
	for at, item := range spec["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			for status := range op.(map[string]any)["responses"].(map[string]any) {
				if status < "400" && ours.Paths[at][method].Responses[status] == nil {
					t.Errorf("%s %s has no %s", method, at, status)
				}
			}
		}
	}
	request := spec["components"].(map[string]any)["schemas"].(map[string]any)["CreateAgentRequest"].(map[string]any)["properties"].(map[string]any)
	for name, part := range map[string]string{"CreateAgentRequest": "", "Prompt": "prompt", "Source": "source", "Target": "target", "Webhook": "webhook"} {
		fields := request
		if part != "" {
			fields = request[part].(map[string]any)["properties"].(map[string]any)
		}
		for field := range fields {
			if ours.Components.Schemas["V0"+name].Properties[field] == nil {
				t.Errorf("V0%s has no %s", name, field)
			}
		}
	}
}
