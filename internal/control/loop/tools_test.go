package loop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/policy/permit"
	"aloft/internal/tool"
)

// TestToolsOfTheServer calls every tool of the catalogue that runs on the
// server, and checks the results that the model gets. It fails if a tool has no
// row.
func TestToolsOfTheServer(t *testing.T) {
	const list = `TodoWrite {"merge":false,"todos":[{"id":"1","content":"read","status":"completed"},{"id":"2","content":"write","status":"pending"}]}`
	answered := agent.ApprovalAnswered{Decision: agent.Answered, UserID: 7, Answers: []agent.Answer{{QuestionID: "db", OptionIDs: []string{"pg"}}, {QuestionID: "name", Text: "x"}}}
	rows := map[string]struct {
		calls  []string // one call per turn
		review string   // the change that the agent reviews
		answer *agent.ApprovalAnswered
		want   string // part of the last call's result
	}{
		"TodoWrite": {calls: []string{list}, want: "[completed] 1: read\n[pending] 2: write\n"},
		"ReadTodos": {calls: []string{list, `ReadTodos {"status":"pending"}`}, want: "[pending] 2: write\n"},
		"Reflect":   {calls: []string{`Reflect {"reflection":"The tests pass, but nothing covers the parser."}`}, want: "Noted"},
		"ReportBugfixResults": {
			calls: []string{`ReportBugfixResults {"results":[{"bug_id":"B-1","verdict":"BUGFIX_VERDICT_FIXED"}]}`}, want: "B-1: fixed",
		},
		"UpdateMemory":        {calls: []string{`UpdateMemory {"title":"Build","knowledge_to_store":"run make first"}`}, want: "the change applies to later agents on git.example.com/r"},
		"ReloadAgentSkills":   {calls: []string{`ReloadAgentSkills {}`}, want: "Skills: 0"},
		"StartGrindPlanning":  {calls: []string{`StartGrindPlanning {"explanation":"the same in each file"}`}, want: "write the list with TodoWrite"},
		"StartGrindExecution": {calls: []string{list, `StartGrindExecution {}`}, want: "Open items: 1."},
		"Task":                {calls: []string{`Task {"description":"look","prompt":"look","subagent_type":"explore"}`}, want: "done"},
		"WebSearch":           {calls: []string{`WebSearch {"search_term":"x"}`}, want: "https://example.com/a"},
		"ReportFindings": {
			review: "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+x\n",
			calls:  []string{`ReportFindings {"findings":[{"path":"x","line":1,"severity":"FINDING_SEVERITY_LOW","title":"t","body":"b"}]}`}, want: "Accepted as F-1: x:1",
		},
		"AiAttribution": {calls: []string{`AiAttribution {"file_paths":["a.go"]}`}, want: "  1-2 commit 0123456789ab agent bc-1 run run-1"},
		"PrManagement": {
			calls: []string{`PrManagement {"action":"PR_ACTION_CREATE","title":"Mend it"}`}, want: "The pull request is at ",
		},
		"AskQuestion":        {calls: []string{which}, answer: &answered, want: "- pg: PostgreSQL"},
		"CreatePlan":         {calls: []string{`CreatePlan {"name":"Mend","plan":"# First"}`}, answer: &agent.ApprovalAnswered{Decision: agent.AllowOnce, UserID: 7}, want: "The user approved the plan"},
		"SwitchMode":         {calls: []string{`SwitchMode {"target_mode":"plan","explanation":"it is large"}`}, want: "You are in plan mode"},
		"SetupVmEnvironment": {calls: []string{`SetupVmEnvironment {"update_script":"npm ci"}`}, want: "Stored in the environment env-1"},
	}
	for _, spec := range tool.Catalogue() {
		if _, ok := rows[spec.Name]; !ok && spec.Home == tool.Control {
			t.Errorf("no row calls %s", spec.Name)
		}
	}
	for name, c := range rows {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, true)
			if c.review != "" {
				r = r.reviewer(c.review)
			}
			r.searchable()
			r.attribution = func(context.Context, *agent.State, []string) ([]tool.Attributed, error) {
				return []tool.Attributed{{Path: "a.go", First: 1, Last: 2, Commit: "0123456789ab", AgentID: "bc-1", RunID: "run-1"}}, nil
			}
			r.remembers(account.MemoryOn)
			r.pulls = &pulls{}
			r.reviewed(permit.RunEverything, "")
			if c.answer != nil {
				r.answers(*c.answer)
			}
			for _, call := range c.calls {
				r.model.steps = append(r.model.steps, use(call))
			}
			r.model.steps = append(r.model.steps, say("done"), say("done"))
			r.work(t.Context())
			done := bodies[*agent.CallDone](r)
			if len(done) != len(c.calls) {
				t.Fatalf("%d results, want %d", len(done), len(c.calls))
			}
			if last := done[len(done)-1]; last.Error || !strings.Contains(last.Text, c.want) {
				t.Errorf("the model is told %q, want %q", last.Text, c.want)
			}
		})
	}
}

// TestReadTodos checks which lists are parsed.
func TestReadTodos(t *testing.T) {
	for name, c := range map[string]struct{ call, want string }{
		"All":    {`ReadTodos {}`, "[completed] 1: read\n[pending] 2: write\n"},
		"None":   {`ReadTodos {"status":"cancelled"}`, "None of the 2 items is cancelled."},
		"Wrong":  {`ReadTodos {"status":"open"}`, `status is "open"; must be one of pending, in_progress, completed, cancelled`},
		"Schema": {`ReadTodos {"id":"1"}`, "the arguments do not match the schema"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, false)
			r.model.steps = []step{
				use(`ReadTodos {}`), use(`TodoWrite {"merge":false,"todos":[{"id":"1","content":"read","status":"completed"},{"id":"2","content":"write","status":"pending"}]}`),
				use(c.call), say("done"),
			}
			if err := loop.Run(t.Context(), r.id, r.config()); err != nil {
				t.Fatal(err)
			}
			if got := results(r); len(got) != 3 || got[0] != "The list is empty: create one with TodoWrite." || !strings.HasPrefix(got[2], c.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A tool that the agent may not use is not offered, and a call of it does not
// run.
func TestPermittedTools(t *testing.T) {
	r := newRig(t, false)
	r.change = func(c *loop.Config) { c.Tools.Permits = func(name string) bool { return name == "Read" } }
	r.model.steps = []step{use(`Shell {"command":"true"}`), say("done")}
	r.work(t.Context())
	if diff := cmp.Diff([]string{"Shell is not available: the automation that started this agent does not permit it"}, results(r)); diff != "" {
		t.Error(diff)
	}
	if got := r.model.requests[0].Tools; len(got) != 1 || got[0].Name != "Read" {
		t.Errorf("offered %+v", got)
	}
}
