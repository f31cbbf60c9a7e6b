package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/api/stream"
	"aloft/internal/conversation"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var rewrite = flag.Bool("update", false, "write the golden files anew")

// An event is a server-sent event.
type event struct{ id, name, data string }

// readEvent reads one frame and checks its syntax strictly.
func readEvent(r *bufio.Reader) (event, error) {
	var e event
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ": ")
		if !ok || strings.Contains(line, "\r") || strings.HasPrefix(value, " ") {
			return e, fmt.Errorf("not a line of a frame: %q", line)
		}
		switch {
		case name == "id" && e.id == "" && e.name == "":
			e.id = value
		case name == "event" && e.name == "":
			e.name = value
		case name == "data" && e.data == "" && e.name != "":
			e.data = value
		default:
			return e, fmt.Errorf("line out of place: %q", line)
		}
	}
	if e.name == "" || e.data == "" || !json.Valid([]byte(e.data)) {
		return e, fmt.Errorf("not a frame: %+v", e)
	}
	if quiet := e.name == "status" || e.name == "heartbeat"; quiet != (e.id == "") {
		return e, fmt.Errorf("id %q of a frame %s", e.id, e.name)
	}
	return e, nil
}

func readEvents(t *testing.T, r io.Reader) []event {
	t.Helper()
	var all []event
	for b := bufio.NewReader(r); ; {
		e, err := readEvent(b)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

// open opens a stream as Ann. The stream is closed when the test ends.
func (h *house) open(path, last string) *http.Response {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), "GET", h.http.URL+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	req.SetBasicAuth(annsKey, "")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := h.http.Client().Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 {
		data, _ := io.ReadAll(resp.Body)
		h.t.Fatalf("%s: %d %s", path, resp.StatusCode, data)
	}
	return resp
}

func streamOf(id, runID string) string { return "/v1/agents/" + id + "/runs/" + runID + "/stream" }

// The golden file contains the stream of a run that has every kind of event.
func TestProjector(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	created := &agent.RunCreated{Prompt: conversation.Text(conversation.User, "Mend it")}
	for name, last := range map[string][]agent.Body{
		"finished": {finish()},
		"failed":   {&agent.RunEnded{Status: agent.Failed, Failure: &agent.Failure{Code: "ref_not_found", Message: "there is no main", Hint: "name another"}}},
		"cancelled": {
			&agent.TurnReplied{Message: someWork()[10].(*agent.TurnReplied).Message}, &agent.ThinkingDelta{Text: "so"},
			&agent.CallSent{CallID: "c9"}, &agent.RunEnded{Status: agent.Cancelled}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			run := agent.Run{ID: "run-1", AgentID: "bc-1", Status: agent.Finished, FirstSeq: 2}
			var events []agent.Event
			for i, b := range slices.Concat([]agent.Body{created}, someWork(), last) {
				events = append(events, agent.Event{Seq: int64(i + 2), RunID: "run-1", Time: began.Add(time.Duration(i) * time.Second), Body: b})
			}
			out.Write(stream.ReplayRun(run, events))
			golden := filepath.Join("testdata", "stream", name+".txt")
			if *rewrite {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), out.String()); d != "" {
				t.Errorf("-golden +got:\n%s", d)
			}
			holdToSpecification(t, readEvents(t, &out))
		})
	}
}

// holdToSpecification checks frames against the specification.
func holdToSpecification(t *testing.T, events []event) {
	t.Helper()
	toolCall, err := schemaAt("/v1", "/components/schemas/RunStreamToolCallEvent")
	if err != nil {
		t.Fatal(err)
	}
	lastID := ""
	for _, e := range events {
		if e.id != "" && e.id < lastID {
			t.Errorf("id %s after %s", e.id, lastID)
		}
		if e.id == lastID && e.id != "" && e.name != "interaction_update" {
			t.Errorf("%s has the id of the frame before", e.name)
		}
		if e.id != "" {
			lastID = e.id
		}
		if e.name == "tool_call" {
			data, err := jsonschema.UnmarshalJSON(strings.NewReader(e.data))
			if err != nil {
				t.Fatal(err)
			}
			if err := toolCall.Validate(map[string]any{"event": e.name, "id": e.id, "data": data}); err != nil {
				t.Errorf("%s: %v", e.data, err)
			}
		}
	}
	if n := len(events); n < 2 || events[0].name != "status" || events[n-2].name != "result" || events[n-1].name != "done" {
		t.Errorf("it does not begin with status and end with result and done: %v", events)
	}
}

func TestStreamLive(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	resp := h.open(streamOf(id, runID), "")
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	if resp.Header.Get("X-Cursor-Stream-Retention-Seconds") == "" {
		t.Error("it does not say how long it is kept")
	}
	r := bufio.NewReader(resp.Body)
	if e, err := readEvent(r); err != nil || e.data != `{"runId":"`+runID+`","status":"CREATING"}` {
		t.Fatalf("top: %+v, %v", e, err)
	}
	if e, err := readEvent(r); err != nil || !strings.Contains(e.data, "user-message-appended") {
		t.Fatalf("prompt: %+v, %v", e, err)
	}
	h.append(id, runID, &agent.RunStarted{})
	if e, err := readEvent(r); err != nil || !strings.Contains(e.data, "RUNNING") {
		t.Fatalf("started: %+v, %v", e, err)
	}
	top := bufio.NewReader(h.open(streamOf(id, runID), "").Body)
	if e, err := readEvent(top); err != nil || !strings.Contains(e.data, "RUNNING") {
		t.Fatalf("a second watcher's top: %+v, %v", e, err)
	}
	h.append(id, runID, append(someWork()[1:], finish())...)
	rest := readEvents(t, r)
	if n := len(rest); n < 3 || rest[n-3].name != "status" || rest[n-2].name != "result" || rest[n-1].name != "done" {
		t.Errorf("the end: %v", rest)
	}
	var said strings.Builder
	for _, e := range rest {
		if e.name == "assistant" {
			var d struct{ Text string }
			if err := json.Unmarshal([]byte(e.data), &d); err != nil {
				t.Fatal(err)
			}
			said.WriteString(d.Text)
		}
	}
	if got, want := said.String(), "I loI look at it.Done."; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	if !strings.Contains(rest[len(rest)-2].data, `"git":{"branches":[{"repoUrl":"git.example.com/o/r.git","branch":"aloft/x"}]}`) {
		t.Errorf("result: %s", rest[len(rest)-2].data)
	}
}

// A client may lose its connection after any frame, and the server may restart
// before the client resumes. With the id of the last frame the client gets
// exactly the remaining frames.
func TestStreamResumesAnywhere(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	h.append(id, runID, append(someWork(), finish())...)
	path := streamOf(id, runID)
	whole := identified(readEvents(t, h.open(path, "").Body))
	h.restart()
	if d := cmp.Diff(whole, identified(readEvents(t, h.open(path, "").Body)), cmp.AllowUnexported(event{})); d != "" {
		t.Fatalf("after a restart the stream is another:\n%s", d)
	}
	for i, e := range whole {
		if i+1 < len(whole) && whole[i+1].id == e.id {
			continue // the server sends the twin frame in the same write
		}
		all := readEvents(t, h.open(path, e.id).Body)
		if all[0].name != "status" {
			t.Errorf("after %s no status at the top: %v", e.id, all[0])
		}
		want := whole[i+1:]
		if len(want) == 0 {
			want = whole[i:] // the server sends done again, to end the connection
		}
		if d := cmp.Diff(want, identified(all), cmp.AllowUnexported(event{})); d != "" {
			t.Fatalf("after %+v:\n%s", e, d)
		}
		for j, e := range all {
			if e.name == "status" && j > 0 && e.data == all[0].data {
				t.Errorf("the same status twice: %v", all)
			}
		}
	}
}

func identified(events []event) []event {
	return slices.DeleteFunc(slices.Clone(events), func(e event) bool { return e.id == "" })
}

// A restarting server disconnects a client again and again while the run works.
// The client must get each frame once.
func TestStreamOverRestarts(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	var seen []event
	last := ""
	for i, b := range someWork() {
		h.append(id, runID, b)
		if i%4 != 3 {
			continue
		}
		resp := h.open(streamOf(id, runID), last)
		r := bufio.NewReader(resp.Body)
		head := h.head(id)
		for want := h.lastFrame(id, runID, head); want != "" && last < want; {
			e, err := readEvent(r)
			if err != nil {
				t.Fatal(err)
			}
			if e.id != "" {
				seen, last = append(seen, e), e.id
			}
		}
		if e := seen[len(seen)-1]; e.name != "interaction_update" {
			if next, err := readEvent(r); err == nil && next.id == e.id {
				seen = append(seen, next)
			}
		}
		h.restart()
	}
	h.append(id, runID, finish())
	seen = append(seen, identified(readEvents(t, h.open(streamOf(id, runID), last).Body))...)
	whole := identified(readEvents(t, h.open(streamOf(id, runID), "").Body))
	if d := cmp.Diff(whole, seen, cmp.AllowUnexported(event{})); d != "" {
		t.Errorf("-whole +pieces:\n%s", d)
	}
}

// lastFrame returns the id of the last frame that the events in the journal so
// far produce.
func (h *house) lastFrame(id, runID string, head int64) string {
	h.t.Helper()
	events, err := h.store.Read(h.t.Context(), id, 0, int(head))
	if err != nil {
		h.t.Fatal(err)
	}
	last := ""
	for _, f := range readEvents(h.t, bytes.NewReader(stream.ReplayRun(agent.Run{ID: runID, AgentID: id}, events))) {
		if f.id != "" {
			last = f.id
		}
	}
	return last
}

func TestLastEventIDOfAnotherRun(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	h.append(id, runID, append(someWork(), finish())...)
	second := h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"more"}}`), 201).text(t, "run.id")
	first := identified(readEvents(t, h.open(streamOf(id, runID), "").Body))
	for _, bad := range []string{first[0].id, first[len(first)-1].id, "x", "1", "--"} {
		a := h.want(h.call("GET", streamOf(id, second), "", "Last-Event-ID", bad), 400)
		if a.text(t, "error.code") != "invalid_last_event_id" {
			t.Errorf("%q: %s", bad, a.body)
		}
	}
}

func TestHeartbeatAndDeletion(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	h.api.stream.Heartbeat = 5 * time.Millisecond
	r := bufio.NewReader(h.open(streamOf(id, runID), "").Body)
	for beats := 0; beats < 3; {
		e, err := readEvent(r)
		if err != nil {
			t.Fatal(err)
		}
		if e.name == "heartbeat" && e.data == "{}" {
			beats++
		}
	}
	h.want(h.call("DELETE", "/v1/agents/"+id, ""), 200)
	rest, err := io.ReadAll(r)
	if err != nil || !strings.HasSuffix(string(rest), "event: done\ndata: {}\n\n") || !strings.Contains(string(rest), "agent_not_found") {
		t.Errorf("after its deletion: %q, %v", rest, err)
	}
}

func TestManyWatchers(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	const watchers = 60
	all := make([][]event, watchers)
	var wg, ready sync.WaitGroup
	ready.Add(watchers)
	for i := range watchers {
		wg.Go(func() {
			opened := sync.OnceFunc(ready.Done)
			defer opened() // also on failure
			resp := h.open(streamOf(id, runID), "")
			opened()
			all[i] = identified(readEvents(t, resp.Body))
		})
	}
	ready.Wait()
	for _, b := range append(someWork(), finish()) {
		h.append(id, runID, b)
	}
	wg.Wait()
	for i := range all {
		if d := cmp.Diff(all[0], all[i], cmp.AllowUnexported(event{})); d != "" {
			t.Fatalf("watcher %d saw another run:\n%s", i, d)
		}
	}
}
