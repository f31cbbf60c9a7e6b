package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"aloft/internal/conversation"
	"aloft/internal/rule"
)

// TestForkedEncoding checks that the journal's encoding of [Forked] stays the
// same, byte for byte, including the order of its members.
func TestForkedEncoding(t *testing.T) {
	var f Forked
	f.AgentID, f.Seq, f.Turn, f.Layer, f.BootID, f.Numbers, f.BaseCommit = "bc-1", 42, 3, "layer-1", "boot-1", 57, "c0ffee"
	f.Others = []Checkout{{BaseCommit: "dead", Branch: "aloft/x-1234"}}
	f.Messages = []conversation.Message{conversation.Text(conversation.User, "do it")}
	f.Asked = []string{"do it"}
	f.Todos = []Todo{{ID: "1", Content: "write", Status: "pending"}}
	f.Memory = Memory{Files: []string{"a.go"}, Applied: []rule.Rule{{}}}
	f.Servers, f.Mode, f.RulesAt = "servers", ModePlan, "beef"
	f.Subagents = []Resumable{{TaskBegan: TaskBegan{ID: "s1", Type: "explore"}}}
	f.Checks, f.Goal = []string{"make test"}, "all pass"
	if _, data, err := Encode(&f); err != nil {
		t.Fatal(err)
	} else {
		sameAsFile(t, data, "forked.json")
	}
}

// TestFoldedEncoding checks that an agent and a run keep all their fields.
func TestFoldedEncoding(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := Fold("bc-1", []Event{
		{Seq: 1, Time: at, Body: &Created{Name: "n", UserID: 7, Env: Env{Type: "cloud"}, Repos: []Repo{{URL: "https://example.com/a"}}, Model: "m", Class: "strong", RunMode: "allowlist"}},
		{Seq: 2, Time: at, RunID: "run-1", Body: &RunCreated{Prompt: conversation.Text(conversation.User, "do it")}},
		{Seq: 3, Time: at, RunID: "run-1", Body: &RunStarted{}},
		{Seq: 4, Time: at, Body: &MachineMade{MachineID: "m-1", Origin: "c0ffee", RulesAt: "beef"}},
		{Seq: 5, Time: at, RunID: "run-1", Body: &RunEnded{Status: Finished, Result: "ok", Outcome: Done}},
	})
	data, err := json.Marshal(map[string]any{"agent": s.Agent, "run": s.Run})
	if err != nil {
		t.Fatal(err)
	}
	var fields any
	if err = json.Unmarshal(data, &fields); err == nil {
		data, err = json.Marshal(fields) // sorts the members
	}
	if err != nil {
		t.Fatal(err)
	}
	sameAsFile(t, data, "folded.json")
}

// sameAsFile compares data with a file of testdata/encoding. With the
// flag -update it writes the file.
func sameAsFile(t *testing.T, data []byte, name string) {
	t.Helper()
	file := filepath.Join("testdata", "encoding", name)
	if *update {
		if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(data) + "\n"; got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
