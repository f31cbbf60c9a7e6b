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

	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
)

func prompt(rest string) string { return `{"prompt":{"text":"x"},` + rest + `}` }

func subagents(list string) string { return prompt(`"customSubagents":[` + list + `]`) }

func TestBadInput(t *testing.T) {
	h := newHouse(t)
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n"))
	image := func(fields string) string { return `{"prompt":{"text":"x","images":[{` + fields + `}]}}` }
	five := strings.Repeat(`{"data":"`+png+`","mimeType":"image/png"},`, 5)
	for _, c := range []struct {
		name, body, code string
		says             []string // substrings that the message must contain
	}{
		{"Empty", "", "missing_body", []string{"empty"}},
		{"Malformed", "{\n \"prompt\": {\"text\": \"x\",}}", "invalid_json", []string{"line 2", "column 25"}},
		{"Cut", `{"prompt":`, "invalid_json", []string{"line 1"}},
		{"NotAnObject", `[1]`, "validation_error", []string{"an object, not array"}},
		{"NoPrompt", `{}`, "validation_error", []string{"prompt"}},
		{"NullPrompt", `{"prompt":null}`, "validation_error", []string{"prompt"}},
		{"NoText", `{"prompt":{}}`, "validation_error", []string{"prompt.text"}},
		{"BlankText", `{"prompt":{"text":" \n"}}`, "validation_error", []string{"prompt.text"}},
		{"TextIsANumber", `{"prompt":{"text":5}}`, "validation_error", []string{"prompt.text", "string", "number"}},
		{"PromptIsAString", `{"prompt":"x"}`, "validation_error", []string{"prompt", "object", "string"}},
		{"PromptOf10MB", `{"prompt":{"text":"` + strings.Repeat("x", 10<<20) + `"}}`, "validation_error", []string{"prompt.text", "10485760"}},
		{"ImagesIsAnObject", `{"prompt":{"text":"x","images":{}}}`, "validation_error", []string{"prompt.images", "array"}},
		{"SixImages", `{"prompt":{"text":"x","images":[` + five + `{}]}}`, "validation_error", []string{"prompt.images", "6"}},
		{"ImageWithNothing", image(``), "validation_error", []string{"prompt.images[0].data"}},
		{"ImageWithoutType", image(`"data":"` + png + `"`), "validation_error", []string{"prompt.images[0].mimeType"}},
		{"ImageOfAnotherType", image(`"data":"` + png + `","mimeType":"image/jpeg"`), "validation_error", []string{"prompt.images[0].data", "image/png"}},
		{"ImageOfNoType", image(`"data":"` + png + `","mimeType":"text/plain"`), "validation_error", []string{"prompt.images[0].mimeType"}},
		{"ImageNotBase64", image(`"data":"%%","mimeType":"image/png"`), "validation_error", []string{"prompt.images[0].data", "base64"}},
		{"ImageOf16MB", image(`"data":"` + base64.StdEncoding.EncodeToString(make([]byte, 16<<20)) + `","mimeType":"image/png"`), "validation_error", []string{"prompt.images[0].data", "15 MiB"}},
		{"ImageByURL", image(`"url":"http://127.0.0.1:1/y.png"`), "image_unreachable", []string{"prompt.images[0].url"}},
		{"ImageByPrivateURL", image(`"url":"http://169.254.169.254/latest"`), "address_blocked", []string{"prompt.images[0].url", "169.254"}},
		{"ImageByFileURL", image(`"url":"file:///etc/passwd"`), "validation_error", []string{"prompt.images[0].url"}},
		{"WebhookEvents", prompt(`"webhook":{"url":"https://hooks.example.com/","events":["statusChange","runEnded"]}`), "validation_error", []string{"webhook.events[1]"}},
		{"WebhookURL", prompt(`"webhook":{"url":"ftp://x/"}`), "validation_error", []string{"webhook.url"}},
		{"WebhookInside", prompt(`"webhook":{"url":"http://10.0.0.1/"}`), "address_blocked", []string{"webhook.url", "10.0.0.0/8"}},
		{"WebhookSecret", prompt(`"webhook":{"url":"https://example.com/h","secret":"short"}`), "validation_error", []string{"webhook.secret"}},
		{"ImageBoth", image(`"url":"https://x/y.png","data":"` + png + `"`), "validation_error", []string{"prompt.images[0]"}},
		{"ImageFlat", image(`"data":"` + png + `","mimeType":"image/png","dimension":{"width":0,"height":1}`), "validation_error", []string{"dimension"}},
		{"NameEmpty", prompt(`"name":""`), "validation_error", []string{"name"}},
		{"NameLong", prompt(`"name":"` + strings.Repeat("é", 101) + `"`), "validation_error", []string{"name", "101"}},
		{"AgentID", prompt(`"agentId":"bc-1"`), "validation_error", []string{"agentId"}},
		{"ModelUnknown", prompt(`"model":{"id":"gpt-9"}`), "invalid_model", []string{"model.id", "gpt-9", "house", "other"}},
		{"ModelEmpty", prompt(`"model":{}`), "validation_error", []string{"model.id"}},
		{"ModelIsAString", prompt(`"model":"house"`), "validation_error", []string{"model", "object"}},
		{"ModelParams", prompt(`"model":{"id":"house","params":[{"id":"a","value":"b"}]}`), "validation_error", []string{"model.params[0].id", "has no parameters"}},
		{"EnvType", prompt(`"env":{"type":"moon"}`), "validation_error", []string{"env.type"}},
		{"EnvPool", prompt(`"env":{"type":"pool"}`), "not_implemented", []string{"env.type"}},
		{"EnvMachine", prompt(`"env":{"type":"machine","name":"x"}`), "not_implemented", []string{"env.type"}},
		{"EnvName", prompt(`"env":{"type":"cloud","name":""}`), "validation_error", []string{"env.name"}},
		{"TheSameRepoTwice", prompt(`"repos":[{"url":"https://h/a"},{"url":"git@h:a.git"}]`), "validation_error", []string{"repos[1].url"}},
		{"RepoPR", prompt(`"repos":[{"url":"https://h/a","prUrl":"https://h/a/1"}]`), "integration_not_connected", []string{"repos[0].prUrl"}},
		{"RepoURL", prompt(`"repos":[{}]`), "validation_error", []string{"repos[0].url"}},
		{"RepoRef", prompt(`"repos":[{"url":"https://h/a","startingRef":"--upload-pack=x"}]`), "validation_error", []string{"repos[0].startingRef"}},
		{"ReposIsAString", prompt(`"repos":"https://h/a"`), "validation_error", []string{"repos", "array"}},
		{"MCPServers", prompt(`"mcpServers":[{"name":"a"}]`), "validation_error", []string{"mcpServers[0]"}},
		{"SubagentField", subagents(`{"name":"a","description":"b","prompt":"c","tools":["Read"]}`), "validation_error", []string{`unknown field "tools"`}},
		{"SubagentWithoutPrompt", subagents(`{"name":"a","description":"b","prompt":" "}`), "validation_error", []string{"customSubagents[0].prompt: is required"}},
		{"SubagentName", subagents(`{"name":"a\nb","description":"b","prompt":"c"}`), "validation_error", []string{"customSubagents[0].name"}},
		{"SubagentOfAloft", subagents(`{"name":"Explore","description":"b","prompt":"c"}`), "validation_error", []string{"customSubagents[0].name", "Aloft's own"}},
		{"SubagentTwice", subagents(`{"name":"a","description":"b","prompt":"c"},{"name":"a","description":"b","prompt":"c"}`), "validation_error", []string{"customSubagents[1].name", "duplicate"}},
		{"SubagentLong", subagents(`{"name":"a","description":"b","prompt":"` + strings.Repeat("é", 8193) + `"}`), "validation_error", []string{"customSubagents[0].prompt", "8193"}},
		{"SubagentModel", subagents(`{"name":"a","description":"b","prompt":"c","model":"gpt-9"}`), "invalid_model", []string{"customSubagents[0].model.id", "gpt-9"}},
		{"SubagentModelIsANumber", subagents(`{"name":"a","description":"b","prompt":"c","model":5}`), "validation_error", []string{"an object"}},
		{"TooManySubagents", subagents(`{}` + strings.Repeat(",{}", 20)), "validation_error", []string{"customSubagents", "21"}},
		{"MCPField", prompt(`"mcpServers":[{"name":"a","command":"x","cwd":"/"}]`), "validation_error", []string{`unknown field "cwd"`}},
		{"EnvVars", prompt(`"envVars":{"CURSOR_A":"b"}`), "name_reserved", []string{"envVars.CURSOR_A"}},
		{"EmptyEnvVar", prompt(`"envVars":{"A":""}`), "validation_error", []string{"envVars.A"}},
		{"AutoCreatePR", prompt(`"autoCreatePR":true`), "repository_required", []string{"autoCreatePR", "requires a repository"}},
		{"NoForge", prompt(`"autoCreatePR":true,"repos":[{"url":"https://h/a"}]`), "integration_not_connected", []string{"autoCreatePR", "git.credentials"}},
		{"Mode", prompt(`"mode":"dance"`), "validation_error", []string{"mode"}},
		{"Class", prompt(`"class":"weak"`), "validation_error", []string{"class"}},
		{"WorkOnCurrentBranch", prompt(`"workOnCurrentBranch":"yes"`), "validation_error", []string{"workOnCurrentBranch", "true or false"}},
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
	for _, body := range []string{`{}`, `{"prompt":{"text":5}}`, prompt(`"mode":"x"`), prompt(`"model":{"id":"none"}`), prompt(`"envVars":{"A":"b"}`), prompt(`"mcpServers":[{"name":"x"}]`)} {
		h.want(h.call("POST", "/v1/agents/"+id+"/runs", body), 400)
	}
}

func TestLargeImagesAreAccepted(t *testing.T) {
	h := newHouse(t)
	data := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, (15<<20)-8)...)
	image := `{"data":"` + base64.StdEncoding.EncodeToString(data) + `","mimeType":"image/png"}`
	a := h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x","images":[`+image+`]}}`), 201)
	events, err := h.store.Read(t.Context(), a.text(t, "agent.id"), 1, 1)
	if err != nil || len(events[0].Body.(*agent.RunCreated).Prompt.Blocks[1].Image.Data) != (15<<20) {
		t.Errorf("the image was not kept whole: %v", err)
	}
}

func TestBodyThatIsTooLong(t *testing.T) {
	h := newHouse(t)
	req, err := http.NewRequestWithContext(t.Context(), "POST", h.http.URL+"/v1/agents", io.LimitReader(spaces{}, rest.MaxBody+2))
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

func TestWithoutScheme(t *testing.T) {
	for in, want := range map[string]string{
		"https://h:1/o/r.git": "h:1/o/r.git", "git@h:o/r": "h/o/r", "ssh://git@h/o@x": "h/o@x", "file:///srv/r": "/srv/r",
	} {
		if got := rest.WithoutScheme(in); got != want {
			t.Errorf("withoutScheme(%q) = %q, want %q", in, got, want)
		}
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
		{"GET", "/v1/agents/", 200, ""},
		{"GET", "//v1/agents", 200, ""},
		{"GET", "/v1//agents", 404, ""},
		{"POST", "/v1/agents/../me/keys", 404, ""},
		{"GET", "/v1/agents?includeArchived=False", 200, ""},
		{"GET", "/v1/agents?includeArchived=no", 400, ""},
		{"PUT", "/v0/agents/", 405, "POST, GET, HEAD, OPTIONS"},
		{"GET", "/v1/nothing/", 404, ""},
		{"GET", "/v1/", 404, ""},
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
	if a := h.call("HEAD", streamOf(id, runID), ""); a.status != 200 || a.header.Get("Content-Type") != rest.EventStream {
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
	if strings.Contains(string(a.body), "secret") || a.text(t, "error.code") != "internal_error" {
		t.Errorf("%s", a.body)
	}
	h.work.diff = func(string) (string, bool, error) {
		return "", false, fault.Unavailable("the machine is gone").Named("machine_gone")
	}
	h.want(h.call("GET", "/v1/agents/"+id+"/diff", ""), 503)
}

// A client that stops reading does not block its handler forever.
func TestSlowReaderIsCutOff(t *testing.T) {
	h := newHouse(t)
	h.api.Patience = 50 * time.Millisecond
	id, runID := h.begin()
	for range 40 {
		h.append(id, runID, &agent.TextDelta{Text: strings.Repeat("x", 1<<20)})
	}
	conn, err := net.Dial("tcp", h.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", streamOf(id, runID), annsKey)
	defer conn.Close() // the client has read nothing
	eventually(t, "the handler has returned", func() bool { return strings.Contains(h.log.String(), "/stream") })
}
