package sqlite

import (
	"encoding/json"
	"slices"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

// The migration finds the todo lists of agents that are older than the stored
// positions of todo lists.
func TestTodosFromBeforeTheyWereRemembered(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	id, runID := agent.NewID(), agent.NewRunID()
	wrote := func(list string) agent.Event {
		return agent.Event{RunID: runID, Body: &agent.CallDone{CallID: "c", Text: "ok", Output: json.RawMessage(list)}}
	}
	var head int64
	if _, err := s.Append(t.Context(), store.Append{AgentID: id, IfHead: &head, Events: []agent.Event{
		{Body: &agent.Created{Name: "old"}},
		{RunID: runID, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "x")}},
		wrote(`{"success":{"todos":[{"id":"1","content":"read","status":"pending"}]}}`),
		wrote(`{"success":{"stdout":"\"todos\":[ are none"}}`),
		wrote(`{"success":{"todos":[]}}`),
		wrote(`{"success":{"todos":[{"id":"1","content":"gone","status":"pending"}]}}`),
		{Body: &agent.Rewound{To: 6, Turn: 1}},
		wrote(`{"success":{"todos":[{"id":"2","content":"write","status":"pending"}]}}`),
	}}); err != nil {
		t.Fatal(err)
	}
	now, err := s.Agent(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.writer.conn.ExecContext(t.Context(), "UPDATE agents SET todos = ''; ALTER TABLE runs DROP COLUMN privacy; ALTER TABLE runs DROP COLUMN outcome; ALTER TABLE runs DROP COLUMN evidence; ALTER TABLE snapshots DROP COLUMN published_by; DROP TABLE inbound_events; DROP TABLE pull_watches; DROP TABLE topics; DROP TABLE memories; DROP TABLE automations; DROP TABLE automation_starts; DROP TABLE narrowings; DELETE FROM goose_db_version WHERE version_id >= 22"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	then, err := openTest(t, dir).Agent(t.Context(), id)
	if err != nil || !slices.Equal(now.Todos, []int64{3, 5, 8}) || !slices.Equal(then.Todos, now.Todos) {
		t.Errorf("%v, and after the upgrade %v: %v", now.Todos, then.Todos, err)
	}
}
