package api

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// disks records which disks were saved. If its error is set, it returns the
// error instead.
type disks struct {
	saved, released int
	heads           []int64
	err             error
}

func (d *disks) Fork(_ context.Context, _ string, head int64, alive bool) (layer, life string, release func(), err error) {
	if d.err != nil {
		return "", "", nil, d.err
	}
	if alive {
		life = "life"
	}
	d.saved++
	d.heads = append(d.heads, head)
	return fmt.Sprintf("fork-%d", d.saved), life, func() { d.released++ }, nil
}

// forkable creates an agent that has replied twice and has pushed after the
// first reply.
func (h *house) forkable() (id string) {
	h.t.Helper()
	made := h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"begin"},"repos":[{"url":"https://git.example/r","startingRef":"main"}],"envVars":{"MINE":"s3cret"}}`), 201)
	id = made.text(h.t, "agent.id")
	say := func(words string) agent.Body {
		return &agent.TurnReplied{Message: conversation.Text(conversation.Assistant, words)}
	}
	h.append(id, made.text(h.t, "run.id"),
		&agent.MachineMade{MachineID: id + "-0000"}, &agent.MachineReady{MachineID: id + "-0000", BootID: "b", BaseCommit: "c0ffee"},
		say("first words"), &agent.Pushed{RepoURL: "https://git.example/r", Branch: "x", Commit: "f00d"}, finish())
	next := h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"again"}}`), 201)
	h.append(id, next.text(h.t, "run.id"), say("second words"), finish())
	return id
}

func (h *house) folded(id string) *agent.State {
	h.t.Helper()
	events, err := h.store.Read(h.t.Context(), id, 0, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	return agent.Fold(id, events)
}

func TestFork(t *testing.T) {
	h := newHouse(t)
	d := &disks{}
	h.api.agents.Forks = d
	id := h.forkable()
	path := "/v1/agents/" + id + "/fork"
	source := h.folded(id)

	made := h.want(h.call("POST", path, `{"n":2,"prompt":{"text":"go on"}}`, "Idempotency-Key", "k"), 201)
	if made.get(t, "disk") != true || made.get(t, "live") != false || made.get(t, "turn") != 2. || d.released != 1 || d.heads[0] != source.Agent.Head {
		t.Errorf("%s, %+v", made.body, d)
	}
	first := made.get(t, "items").([]any)[0].(map[string]any)["agent"].(map[string]any)
	fork := first["id"].(string)
	s := h.folded(fork)
	words := ""
	for _, m := range s.Messages {
		words += m.PlainText() + "|"
	}
	for _, want := range []string{"begin", "first words", "again", "second words", "a different agent", "go on"} {
		before, after, ok := strings.Cut(words, want)
		if !ok {
			t.Errorf("%q is not said, or not in its order: %q after %q", want, words, before)
		}
		words = after
	}
	if s.Agent.Layer != "fork-1" || s.BaseCommit != "c0ffee" || s.Branch == source.Branch || s.Branch == "" || s.MachineID != "" || s.Pushed || s.Agent.ForkedFrom != id {
		t.Errorf("it is %+v", s)
	}
	if len(s.Asked) != 3 || s.Agent.UserID != source.Agent.UserID || s.Next() != agent.NextReply {
		t.Errorf("it is %+v", s)
	}
	if sealed, err := h.store.Secrets(t.Context(), secret.Owner{Kind: secret.OfAgent, ID: fork}); err != nil || len(sealed) > 0 {
		t.Error("it has the other's secrets")
	}

	// A repeated request gets the first reply, even after the agent has
	// continued.
	h.append(id, "", &agent.Notice{Text: "later"})
	again := h.want(h.call("POST", path, `{"n":2,"prompt":{"text":"go on"}}`, "Idempotency-Key", "k"), 201)
	if string(again.body) != string(made.body) || d.saved != 1 {
		t.Errorf("first %s\nagain %s", made.body, again.body)
	}
	// If the first request failed halfway, a repeat completes it with the same
	// disk.
	h.want(h.call("DELETE", "/v1/agents/"+made.get(t, "items").([]any)[1].(map[string]any)["agent"].(map[string]any)["id"].(string), ""), 200)
	h.want(h.call("POST", path, `{"n":2,"prompt":{"text":"go on"}}`, "Idempotency-Key", "k"), 201)
	if d.saved != 1 {
		t.Error("another disk was saved")
	}

	earlier := h.want(h.call("POST", path, `{"turn":1,"prompts":[{"text":"one"},{"text":"two"}]}`), 201)
	if earlier.get(t, "disk") != false || d.saved != 1 {
		t.Errorf("%s", earlier.body)
	}
	s = h.folded(earlier.get(t, "items").([]any)[1].(map[string]any)["agent"].(map[string]any)["id"].(string))
	if s.Agent.Repos[0].StartingRef != "f00d" || s.BaseCommit != "" || len(s.Asked) != 2 || s.Asked[1] != "two" {
		t.Errorf("it is %+v", s)
	}

	for body, code := range map[string]string{
		`{}`: "prompt", `{"n":0,"prompt":{"text":"x"}}`: "n", `{"n":11,"prompt":{"text":"x"}}`: "n", `{"prompts":[]}`: "n",
		`{"n":3,"prompts":[{"text":"x"}]}`: "n", `{"prompt":{"text":"x"},"prompts":[{"text":"x"}]}`: "prompts",
		`{"prompts":[{"text":"x"},{"text":" "}]}`: "prompts[1].text", `{"turn":3,"prompt":{"text":"x"}}`: "turn", `{"turn":-1,"prompt":{"text":"x"}}`: "turn",
		`{"model":{"id":"none"},"prompt":{"text":"x"}}`: "model.id",
	} {
		if a := h.want(h.call("POST", path, body), 400); !strings.Contains(string(a.body), code) {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	h.want(h.callAs(bensKey, "POST", path, `{"prompt":{"text":"x"}}`), 404)

	d.err = fault.Conflict("busy").Named("machine_busy")
	h.want(h.call("POST", path, `{"prompt":{"text":"x"}}`), 409)
	d.err = fault.NotImplemented("no disks")
	if a := h.want(h.call("POST", path, `{"prompt":{"text":"x"}}`), 201); a.get(t, "disk") != false {
		t.Errorf("%s", a.body)
	}
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"work"}}`), 201)
	if a := h.want(h.call("POST", path, `{"prompt":{"text":"x"}}`), 409); a.text(t, "error.code") != "agent_busy" {
		t.Errorf("%s", a.body)
	}
}

// TestForkWithImagesByURL checks that forks get the image at a URL, which the
// server fetches once for all forks, and that a repeated request returns the
// first reply even if the URL no longer works.
func TestForkWithImagesByURL(t *testing.T) {
	h := newHouse(t)
	h.api.agents.Forks = &disks{}
	path := "/v1/agents/" + h.forkable() + "/fork"
	const picture = "\x89PNG\r\n\x1a\n"
	var fetches atomic.Int64
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fetches.Add(1) > 1 || r.URL.Path != "/a.png" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, picture)
	}))
	defer far.Close()
	body := `{"n":2,"prompt":{"text":"go on","images":[{"url":"` + far.URL + `/a.png"}]}}`
	made := h.want(h.call("POST", path, body, "Idempotency-Key", "k"), 201)
	for _, item := range made.get(t, "items").([]any) {
		id := item.(map[string]any)["agent"].(map[string]any)["id"].(string)
		messages := h.folded(id).Messages
		blocks := messages[len(messages)-1].Blocks
		if im := blocks[len(blocks)-1].Image; im == nil || string(im.Data) != picture || im.MediaType != "image/png" {
			t.Errorf("a fork is asked with %v", blocks)
		}
	}
	again := h.want(h.call("POST", path, body, "Idempotency-Key", "k"), 201)
	if string(again.body) != string(made.body) {
		t.Errorf("repeated: %s", again.body)
	}
	list := `{"prompts":[{"text":"a"},{"text":"b","images":[{"url":"` + far.URL + `/gone.png"}]}]}`
	if a := h.want(h.call("POST", path, list), 400); a.text(t, "error.code") != "image_unreachable" || !strings.Contains(string(a.body), "prompts[1].images[0].url") {
		t.Errorf("an image that is gone: %s", a.body)
	}
}

// TestForkAlive checks that forks get the machine's processes, unless the agent
// was created with environment variables of its own.
func TestForkAlive(t *testing.T) {
	h := newHouse(t)
	h.api.agents.Forks = &disks{}
	for vars, alive := range map[string]bool{``: true, `,"envVars":{"MINE":"s3cret"}`: false} {
		made := h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"begin"},"repos":[{"url":"https://git.example/r"}]`+vars+`}`), 201)
		id := made.text(t, "agent.id")
		h.append(id, made.text(t, "run.id"), &agent.MachineMade{MachineID: id + "-0000"}, &agent.MachineReady{MachineID: id + "-0000", BootID: "life"},
			&agent.TurnReplied{Message: conversation.Text(conversation.Assistant, "words")}, finish())
		fork := h.want(h.call("POST", "/v1/agents/"+id+"/fork", `{"prompt":{"text":"go on"}}`), 201)
		if fork.get(t, "live") != alive {
			t.Errorf("of an agent with %q: %s", vars, fork.body)
		}
		one := fork.get(t, "items").([]any)[0].(map[string]any)["agent"].(map[string]any)["id"].(string)
		s := h.folded(one)
		if got := s.Alive("life"); got != alive {
			t.Errorf("its machine goes on with the other's processes: %v", got)
		}
		if told := strings.Contains(s.Messages[len(s.Messages)-1].PlainText(), "gone"); told == alive {
			t.Errorf("it is told %+v", s.Messages)
		}
	}
}

// Forks by the agent's owner get the agent's MCP servers as of the forked turn.
// Forks by other users do not.
func TestForkTakesMCPServersAlong(t *testing.T) {
	h := newHouse(t)
	id := h.forkable()
	server := `{"prompt":{"text":"x"},"mcpServers":[{"name":"tickets","url":"https://tickets.example.com/mcp","headers":{"X-Key":"` + mcpKey + `"}}]}`
	run := h.want(h.call("POST", "/v1/agents/"+id+"/runs", server), 201)
	h.append(id, run.text(t, "run.id"), &agent.TurnReplied{Message: conversation.Text(conversation.Assistant, "third words")}, finish())
	servers := func(key, body string) string {
		t.Helper()
		fork := h.want(h.callAs(key, "POST", "/v1/agents/"+id+"/fork", body), 201).get(t, "items").([]any)[0].(map[string]any)["agent"].(map[string]any)["id"].(string)
		s := h.folded(fork)
		value, err := h.api.mcpservers.MCP.OfRun(t.Context(), fork, s.MCPRun)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	if got := servers(annsKey, `{"prompt":{"text":"go on"}}`); !strings.Contains(got, mcpKey) {
		t.Errorf("a fork has %q", got)
	}
	if got := servers(annsKey, `{"turn":2,"prompt":{"text":"go on"}}`); got != "" {
		t.Errorf("a fork of the turn before has %q", got)
	}
	h.want(h.callAs(bensKey, "POST", "/v1/agents/"+id+"/fork", `{"prompt":{"text":"go on"}}`), 404)
}

// An agent's secrets may be on the saved disk. They stay redacted in its forks
// and in the forks' forks, even after the agent is deleted.
func TestForkKeepsSecretsOfDeletedAgents(t *testing.T) {
	h := newHouse(t)
	h.api.agents.Forks = &disks{}
	id := h.forkable()
	forkOf := func(id string) string {
		made := h.want(h.call("POST", "/v1/agents/"+id+"/fork", `{"prompt":{"text":"go on"}}`), 201)
		items, _ := made.get(t, "items").([]any)
		item, _ := items[0].(map[string]any)
		one, _ := item["agent"].(map[string]any)
		forked, _ := one["id"].(string)
		h.append(forked, h.folded(forked).Run.ID, finish())
		h.want(h.call("DELETE", "/v1/agents/"+id, ""), 200)
		return forked
	}
	for generation := range 2 {
		id = forkOf(id)
		set, _, err := h.safe.ForAgent(t.Context(), h.folded(id).Agent)
		if err != nil {
			t.Fatal(err)
		}
		if values := slices.Collect(maps.Values(set.Values())); !slices.Equal(values, []string{"s3cret"}) {
			t.Errorf("generation %d: secret are %q", generation+1, values)
		}
		if _, ok := set.Environ()["MINE"]; ok {
			t.Errorf("generation %d has the variable", generation+1)
		}
	}
	if sealed, err := h.store.SecretsAfter(t.Context(), "", 100); err != nil || len(sealed) != 1 {
		t.Errorf("%d secrets are kept, of one agent: %v", len(sealed), err)
	}
}

// A fork belongs to the person who makes it. It gets neither the saved environment
// nor the running processes of another person, and its agent is told so. It does get
// an environment of the team.
func TestForkOfAnothersAgent(t *testing.T) {
	h := newHouse(t)
	h.api.agents.Forks = &disks{}
	for owner, keeps := range map[string]bool{"personal": false, "team": true} {
		saved := h.want(h.call("POST", "/v1/environments", fmt.Sprintf(`{"owner":%q,"name":%q,"repos":[],"environmentJson":"{\"install\":\"anns-own\"}"}`, owner, owner)), 201).text(t, "id")
		made := h.want(h.call("POST", "/v1/agents", fmt.Sprintf(`{"prompt":{"text":"begin"},"repos":[{"url":"https://git.example/r"}],"env":{"type":"cloud","name":%q}}`, owner)), 201)
		id := made.text(t, "agent.id")
		h.append(id, made.text(t, "run.id"), &agent.MachineMade{MachineID: id + "-0000"}, &agent.MachineReady{MachineID: id + "-0000", BootID: "life"},
			&agent.TurnReplied{Message: conversation.Text(conversation.Assistant, "words")}, finish())
		for key, own := range map[string]bool{annsKey: true, adminsKey: false} {
			made := h.want(h.callAs(key, "POST", "/v1/agents/"+id+"/fork", `{"prompt":{"text":"go on"}}`), 201)
			fork := made.get(t, "items").([]any)[0].(map[string]any)["agent"].(map[string]any)["id"].(string)
			created, s := h.created(fork), h.folded(fork)
			if (created.UserID == h.created(id).UserID) != own {
				t.Errorf("the fork belongs to user %d", created.UserID)
			}
			if has := created.Env.ID == saved && created.Env.Name == owner && strings.Contains(created.EnvironmentText, "anns-own"); has != (own || keeps) {
				t.Errorf("own %v: the fork has %+v, %q of the %s environment", own, created.Env, created.EnvironmentText, owner)
			}
			if dropped := !own && !keeps; dropped != s.EnvironmentGone || dropped && (created.Env.ID != "" || created.Env.Name != "" || created.EnvironmentText != "") {
				t.Errorf("own %v: the fork has %+v, and is told: %v", own, created.Env, s.EnvironmentGone)
			}
			if alive := made.get(t, "live") == true; alive != own {
				t.Errorf("own %v: processes come along: %v", own, alive)
			}
		}
	}
}
