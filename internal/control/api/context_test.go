package api

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/rule"
)

func TestContext(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	agents := rule.Rule{Source: "AGENTS.md", From: rule.Repository, When: rule.Always, Imports: []string{"docs/a.md"}, Text: "Text of AGENTS.md."}
	db := rule.Rule{Source: "b.mdc", From: rule.Repository, When: rule.OnRequest, Description: "Migrations", Text: "Text"}
	web := rule.Rule{Source: "web/.cursor/rules/ts.mdc", From: rule.Repository, When: rule.OnFiles, Folder: "web", Nested: true, Globs: []string{"*.ts"}, Text: "Types."}
	mine := rule.Rule{Source: rule.File, From: rule.User, When: rule.Always, Text: "Mine."}
	offered := db
	offered.Text = ""
	bad := rule.LeftOut{Source: "CLAUDE.md", Why: "is not a text file"}
	h.append(id, runID,
		&agent.RulesFound{Set: rule.Set{Rules: []rule.Rule{mine, agents, db}, LeftOut: []rule.LeftOut{bad}}},
		&agent.RulesGiven{Set: rule.Set{Rules: []rule.Rule{agents, offered}, LeftOut: []rule.LeftOut{bad, {Source: rule.File, Why: "too long", Budget: true}}}, Text: "rules"},
		&agent.RulesFound{Set: rule.Set{Rules: []rule.Rule{web}}, Nested: true})
	var got, want any
	if err := json.Unmarshal(h.want(h.call("GET", "/v1/agents/"+id+"/context", ""), 200).body, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"tokens":5,"rules":[
		{"source":"AGENTS.md","kind":"rule","from":"repository","when":"always","imports":["docs/a.md"],"tokens":5,"given":"yes"},
		{"source":"b.mdc","kind":"rule","from":"repository","when":"request","description":"Migrations","tokens":1,"given":"offered"},
		{"source":"web/.cursor/rules/ts.mdc","kind":"rule","from":"repository","when":"files","folder":"web","globs":["*.ts"],"tokens":2,"given":"no"},
		{"source":"rules.md","kind":"rule","from":"user","when":"always","tokens":2,"given":"no"}],
		"leftOut":[{"source":"CLAUDE.md","why":"is not a text file"},{"source":"rules.md","why":"too long"}]}`), &want); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestRulesFile(t *testing.T) {
	h := newHouse(t)
	reply := h.want(h.call("PUT", "/v1/rules/me/rules.md", `{"text":"Use tabs.\u202e\n\n"}`), 200)
	var out struct {
		Text     string
		Warnings []string
	}
	if err := json.Unmarshal(reply.body, &out); err != nil || out.Text != "Use tabs.\n" || len(out.Warnings) != 1 {
		t.Errorf("%s, %v", reply.body, err)
	}
	h.want(h.call("PUT", "/v1/rules/me/rules.md", `{"text":"a\u0000b"}`), 400)
	h.want(h.call("PUT", "/v1/rules/me/skills.md", `{"text":"---\nname: release\ndescription: How to release\n---\nRun make."}`), 200)
	h.want(h.call("PUT", "/v1/rules/me/skills.md", `{"text":"---\nname: ../release\ndescription: x\n---\nRun make."}`), 400)
}
