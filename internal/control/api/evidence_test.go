package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"aloft/internal/agent"
)

// Checks apply to later runs until a follow-up changes them.
func TestChecksOfRequests(t *testing.T) {
	h := newHouse(t)
	many, _ := json.Marshal(strings.Split(strings.Repeat("x,", 20)+"x", ","))
	for _, bad := range []string{`[""]`, `["make test","  "]`, string(many), `["` + strings.Repeat("x", 8<<10+1) + `"]`, `"make"`, `[1]`} {
		h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x"},"checks":`+bad+`}`), 400)
	}
	made := h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x"},"checks":["make test"]}`), 201)
	id, runID := made.text(t, "agent.id"), made.text(t, "run.id")
	want := func(want string) {
		t.Helper()
		events, err := h.store.Read(t.Context(), id, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(agent.Fold(id, events).Checks()); got != want {
			t.Errorf("checks %s, want %s", got, want)
		}
	}
	want("[{make test request}]")
	h.append(id, runID, &agent.RunStarted{}, finish())
	queued := h.want(h.call("POST", "/v1/agents/"+id+"/queue", `{"prompt":{"text":"go on"}}`), 201).text(t, "runId")
	want("[{make test request}]")
	h.append(id, queued, &agent.RunStarted{}, finish())
	third := h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"go on"},"checks":["make lint"]}`), 201).text(t, "run.id")
	want("[{make lint request}]")
	h.append(id, third, &agent.RunStarted{}, finish())
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"go on"},"checks":[]}`), 201)
	want("[]")
}

// A request's goal applies until a follow-up changes it.
func TestGoalOfRequests(t *testing.T) {
	h := newHouse(t)
	for _, bad := range []string{`"` + strings.Repeat("x", agent.MaxGoal+1) + `"`, `["x"]`, `1`} {
		a := h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x"},"goal":`+bad+`}`), 400)
		if !strings.Contains(a.text(t, "error.message"), "goal") {
			t.Errorf("refused with %s", a.body)
		}
	}
	made := h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x"},"goal":"fix it"}`), 201)
	id, runID := made.text(t, "agent.id"), made.text(t, "run.id")
	for _, c := range []struct{ body, want string }{
		{``, "fix it"},
		{`{"prompt":{"text":"go on"}}`, "fix it"},
		{`{"prompt":{"text":"go on"},"goal":"test it"}`, "test it"},
		{`{"prompt":{"text":"go on"},"goal":""}`, ""},
	} {
		if c.body != "" {
			h.append(id, runID, &agent.RunStarted{}, finish())
			runID = h.want(h.call("POST", "/v1/agents/"+id+"/runs", c.body), 201).text(t, "run.id")
		}
		events, err := h.store.Read(t.Context(), id, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if got := agent.Fold(id, events).Judging.Goal; got != c.want {
			t.Errorf("after %s the goal is %q", c.body, got)
		}
	}
}

// A run shows its outcome and evidence, and its stream shows the checks.
func TestEvidenceOfRun(t *testing.T) {
	h := newHouse(t)
	made := h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x"}}`), 201)
	id, runID := made.text(t, "agent.id"), made.text(t, "run.id")
	check := agent.Check{Command: "make test", Source: agent.CheckOfRequest}
	results := []agent.CheckResult{{Check: check, State: agent.CheckFailed, ExitCode: new(2), DurationMS: 7, Output: "FAIL"}}
	within := func(b agent.Body) agent.Body { return &agent.Within{CallID: agent.ChecksThread, Body: b} }
	h.append(id, runID, &agent.RunStarted{}, &agent.ChecksBegan{Round: 1, Checks: []agent.PlannedCheck{{Check: check, CallID: "check_1_0"}}},
		within(&agent.CallSent{CallID: "check_1_0"}), within(&agent.CallDelta{CallID: "check_1_0", Stdout: "FAIL"}), within(&agent.CallDone{CallID: "check_1_0", Text: "FAIL"}),
		&agent.ChecksEnded{Results: results},
		&agent.RunEnded{Status: agent.Finished, Outcome: agent.Partly, Evidence: &agent.Evidence{
			Checks: results, Rounds: 4, Stale: true, Commits: []agent.CheckedCommit{{RepoURL: "https://git.test/a", Commit: "c0ffee"}},
			Bugfixes: []agent.Bugfix{{ID: "B-1", Title: "it leaks", Verdict: "not_fixed", Explanation: "no test"}},
		}})
	run := h.want(h.call("GET", "/v1/agents/"+id+"/runs/"+runID, ""), 200)
	want := `"outcome":"partly","evidence":{"checks":[{"command":"make test","source":"request","state":"failed","exitCode":2,"durationMs":7,"output":"FAIL"}],"commits":[{"repoUrl":"git.test/a","commit":"c0ffee"}],"rounds":4,"stale":true,"bugfixes":[{"id":"B-1","title":"it leaks","verdict":"not_fixed","explanation":"no test"}]}`
	if !strings.Contains(string(run.body), want) {
		t.Errorf("%s", run.body)
	}
	stream := string(h.want(h.call("GET", "/v1/agents/"+id+"/runs/"+runID+"/stream", ""), 200).body)
	for _, part := range []string{`"type":"checks-started"`, `"commands":["make test"]`, `"type":"checks-completed"`, want} {
		if !strings.Contains(stream, part) {
			t.Errorf("the stream lacks %s: %s", part, stream)
		}
	}
	if strings.Contains(stream, "tool_call") {
		t.Errorf("the stream shows a check as a tool call: %s", stream)
	}
}
