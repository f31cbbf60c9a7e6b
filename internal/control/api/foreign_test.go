package api

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/api/rest"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// A foreigner is a client generated from a specification alone. A third-party
// validator checks every request and reply, including status and media type.
type foreigner struct {
	house  *house
	doc    *openapi3.T
	router routers.Router
	seen   map[string][]int // statuses by operationId
}

func newForeigner(h *house, spec string) *foreigner {
	h.t.Helper()
	openapi3filter.RegisterBodyDecoder(rest.EventStream, openapi3filter.FileBodyDecoder)
	doc, err := openapi3.NewLoader().LoadFromFile(filepath.Join("testdata", spec))
	if err != nil {
		h.t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		h.t.Fatal(err)
	}
	return &foreigner{h, doc, router, map[string][]int{}}
}

// do calls an operation and fails unless the reply has the status.
func (f *foreigner) do(key, method, path, body string, status int, header ...string) answer {
	t := f.house.t
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.house.http.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if req.SetBasicAuth(key, ""); key == "" {
		req.Header.Del("Authorization")
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	route, params, err := f.router.FindRoute(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	options := &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true}
	in := &openapi3filter.RequestValidationInput{Request: req, Route: route, PathParams: params, Options: options}
	if err := openapi3filter.ValidateRequest(t.Context(), in); err != nil && status != http.StatusBadRequest {
		t.Errorf("no client of the specification asks this: %v", err)
	}
	resp, err := f.house.http.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status {
		t.Fatalf("%s %s: status %d, want %d: %s", method, path, resp.StatusCode, status, data)
	}
	if strings.HasPrefix(path, legacyPrefix) && status >= http.StatusBadRequest {
		options.ExcludeResponseBody = true
		if err := legacyError(data); err != nil {
			t.Errorf("%s %s: %v: %s", method, path, err, data)
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: status, Header: resp.Header, Options: options,
		Body: io.NopCloser(bytes.NewReader(data))}
	if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil {
		t.Errorf("%s %s: %d: %v", method, path, status, err)
	}
	f.seen[route.Operation.OperationID] = append(f.seen[route.Operation.OperationID], status)
	return answer{resp.StatusCode, resp.Header, data, len(data)}
}

// each calls the function for every operation, with a body and a path to a
// missing resource.
func (f *foreigner) each(call func(op *openapi3.Operation, method, path, body string)) {
	fill := strings.NewReplacer("{id}", "bc-00000000-0000-4000-8000-00000000000f", "{runId}", "run-00000000-0000-4000-8000-00000000000f")
	bodies := map[string]string{"createSubToken": `{"forUserId":99}`, "addFollowup": `{"prompt":{"text":"x"}}`, "createRun": `{"prompt":{"text":"x"}}`}
	for pattern, item := range f.doc.Paths.Map() {
		for method, op := range item.Operations() {
			path, body := fill.Replace(pattern), bodies[op.OperationID]
			if op.OperationID == "downloadArtifact" {
				path += "?path=artifacts/none"
			}
			if op.RequestBody != nil && body == "" {
				body = `{"prompt":{"text":"x"},"source":{"repository":"https://git.example.com/o/r"}}`
			}
			call(op, method, path, body)
		}
	}
}

// TestForeignClients calls every operation of both specifications. It must see
// every listed status, except those that cannot occur on this server.
func TestForeignClients(t *testing.T) {
	h := newHouse(t)
	h.keep("bc-1", inMachine{})
	for spec, script := range map[string]func(*foreigner){"rest-v1.json": foreignV1, "rest-v0.json": foreignV0} {
		f := newForeigner(h, spec)
		script(f)
		f.each(func(op *openapi3.Operation, method, path, body string) {
			f.do("", method, path, body, 401)
			if strings.Contains(path, "bc-") || op.OperationID == "createSubToken" {
				f.do(annsKey, method, path, body, 404)
			}
			if method != http.MethodGet {
				f.do(viewersKey, method, path, body, 403)
			}
		})
		now := time.Now()
		h.api.limiter.PerMinute, h.api.limiter.Now = 1, func() time.Time { return now }
		f.each(func(_ *openapi3.Operation, method, path, body string) {
			for h.callAs(adminsKey, "GET", "/v1/me", "").status != 429 {
			}
			if a := f.do(adminsKey, method, path, body, 429); a.header.Get("Retry-After") == "" {
				t.Errorf("%s %s does not say when to come back", method, path)
			}
		})
		h.api.limiter.PerMinute = 0
		f.each(func(op *openapi3.Operation, method, path, _ string) {
			for status := range op.Responses.Map() {
				n, _ := strconv.Atoi(status)
				needless := n == 500 || n == 410 || // streams are kept as long as the agent is
					n == 403 && method == http.MethodGet || // a user without access gets 404
					n == 400 && op.OperationID == "getAgentUsage" || // an unknown run gets 404
					strings.HasPrefix(path, "/v0/") && (n == 400 && op.RequestBody == nil || n == 409 && method != http.MethodPost || path == "/v0/me")
				if !needless && !slices.Contains(f.seen[op.OperationID], n) {
					t.Errorf("%s %s has answered %d, and not %d", method, path, f.seen[op.OperationID], n)
				}
			}
		})
	}
}

// foreignV1 performs the life cycle of an agent and its error cases in /v1.
func foreignV1(f *foreigner) {
	h := f.house
	const png = "iVBORw0KGgo="
	everything := `{"prompt":{"text":"Mend it","images":[{"data":"` + png + `","mimeType":"image/png","dimension":{"width":1,"height":1}}]},
		"model":{"id":"other"},"name":"n","agentId":"bc-00000000-0000-4000-8000-000000000001","env":{"type":"cloud"},
		"repos":[{"url":"https://git.example.com/o/r.git","startingRef":"main"}],"workOnCurrentBranch":true,"autoCreatePR":false,"skipReviewerRequest":true,
		"envVars":{"A":"b"},"mcpServers":[{"name":"a","type":"stdio","command":"x","args":["y"],"env":{"A":"b"}},
		{"name":"b","type":"http","url":"https://mcp.example.com/","headers":{"X":"y"}}],"mode":"plan",
		"customSubagents":[{"name":"Code reviewer","description":"Reads","prompt":"You review.","model":"house"},
		{"name":"b","description":"Writes","prompt":"You write.","model":{"id":"other"}},{"name":"c","description":"d","prompt":"e"}]}`
	made := f.do(annsKey, "POST", "/v1/agents", everything, 201, "Idempotency-Key", "k")
	again := f.do(annsKey, "POST", "/v1/agents", everything, 201, "Idempotency-Key", "k")
	if !bytes.Equal(made.body, again.body) {
		h.t.Errorf("a repeated request gets\n%s\nand not\n%s", again.body, made.body)
	}
	f.do(annsKey, "POST", "/v1/agents", everything, 409)
	f.do(annsKey, "POST", "/v1/agents", `{"prompt":{"text":" "}}`, 400)
	id, runID := made.text(h.t, "agent.id"), made.text(h.t, "run.id")
	path := "/v1/agents/" + id
	run := path + "/runs/" + runID
	f.do(annsKey, "POST", path+"/runs", `{"prompt":{"text":"more"}}`, 409)
	h.append(id, runID, append(someWork(), finish())...)
	f.do(annsKey, "GET", run, "", 200)
	stream := f.do(annsKey, "GET", run+"/stream", "", 200)
	last := readEvents(h.t, bytes.NewReader(stream.body))
	if rest := f.do(annsKey, "GET", run+"/stream", "", 200, "Last-Event-ID", last[len(last)/2].id); len(rest.body) >= len(stream.body) {
		h.t.Error("a stream that is resumed begins anew")
	}
	f.do(annsKey, "GET", run+"/stream", "", 400, "Last-Event-ID", "1")
	f.do(annsKey, "POST", run+"/cancel", "", 409)
	f.do(annsKey, "GET", path+"/usage?runId="+runID, "", 200)
	next := f.do(annsKey, "POST", path+"/runs", `{"prompt":{"text":"more"},"mode":"agent"}`, 201)
	f.do(annsKey, "POST", path+"/runs", `{}`, 400)
	f.do(annsKey, "POST", path+"/runs/"+next.text(h.t, "run.id")+"/cancel", "", 200)
	page := f.do(annsKey, "GET", path+"/runs?limit=1", "", 200)
	f.do(annsKey, "GET", path+"/runs?limit=1&cursor="+page.text(h.t, "nextCursor"), "", 200)
	if a := f.do(annsKey, "GET", path, "", 200); len(a.get(h.t, "customSubagents").([]any)) != 3 {
		h.t.Errorf("the agent has other subagents than were asked for: %s", a.body)
	}
	f.do(annsKey, "GET", "/v1/agents?limit=100&includeArchived=false", "", 200)
	f.do(annsKey, "GET", "/v1/agents?cursor=x", "", 400)
	h.keep(id, inMachine{"shot.png": "a picture"})
	f.do(annsKey, "GET", path+"/artifacts", "", 200)
	f.do(annsKey, "GET", path+"/artifacts/download?path=artifacts/shot.png", "", 200)
	f.do(annsKey, "GET", path+"/artifacts/download?path=", "", 400)
	f.do(annsKey, "POST", path+"/archive", "", 200)
	f.do(annsKey, "POST", path+"/unarchive", "", 200)
	f.do(annsKey, "GET", "/v1/me", "", 200)
	h.withParams()
	f.do(annsKey, "GET", "/v1/models", "", 200)
	f.do(annsKey, "GET", "/v1/repositories", "", 200)
	f.do(annsKey, "POST", "/v1/sub-tokens", `{"forUserEmail":"bens@example.com"}`, 200)
	f.do(annsKey, "POST", "/v1/sub-tokens", `{}`, 400)
	f.do(annsKey, "DELETE", path, "", 200)
}

// foreignV0 performs the life cycle of an agent and its error cases in /v0.
func foreignV0(f *foreigner) {
	h := f.house
	made := f.do(annsKey, "POST", "/v0/agents", `{"prompt":{"text":"Mend it","images":[{"data":"iVBORw0KGgo=","dimension":{"width":1,"height":1}}]},"model":"other",
		"source":{"repository":"https://git.example.com/o/r","ref":"main"},"target":{"autoCreatePr":false,"branchName":"mine"},
		"webhook":{"url":"https://hooks.example.com/","secret":"0123456789abcdef0123456789abcdef"}}`, 201)
	id := made.text(h.t, "id")
	path := "/v0/agents/" + id
	f.do(annsKey, "POST", "/v0/agents", `{"prompt":{"text":"x"}}`, 400)
	f.do(annsKey, "POST", path+"/followup", `{"prompt":{"text":"more"}}`, 409)
	a, err := h.store.Agent(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	h.append(id, a.LatestRunID, append(someWork(), finish())...)
	f.do(annsKey, "GET", path, "", 200)
	f.do(annsKey, "GET", path+"/conversation", "", 200)
	f.do(annsKey, "POST", path+"/followup", `{"prompt":{"text":"more"}}`, 200)
	f.do(annsKey, "POST", path+"/followup", `{}`, 400)
	f.do(annsKey, "GET", "/v0/agents?limit=1", "", 200)
	f.do(annsKey, "GET", "/v0/agents?limit=0", "", 400)
	f.do(annsKey, "GET", "/v0/me", "", 200)
	f.do(annsKey, "GET", "/v0/models", "", 200)
	f.do(annsKey, "GET", "/v0/repositories", "", 200)
	a, err = h.store.Agent(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	h.append(id, a.LatestRunID, &agent.RunEnded{Status: agent.Expired})
	f.do(annsKey, "GET", path, "", 200)
	f.do(annsKey, "DELETE", path, "", 200)
}
