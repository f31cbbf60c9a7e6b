package e2e

import (
	"fmt"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/model/modeltest"
)

// A memory of one agent reaches a later agent on the same repository once a person has
// approved it, also across a restart of the server, and agents of other repositories
// never.
func TestMemoryAcrossRuns(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url, other := git.Repo("widget", map[string]string{"README.md": "widget\n"}), git.Repo("other", map[string]string{"README.md": "other\n"})
	const fact = "Run make fixtures before the tests."
	server := modeltest.NewAnthropic(t,
		modeltest.Reply{Calls: []modeltest.Call{{Name: "UpdateMemory", Args: `{"title":"Fixtures","knowledge_to_store":"` + fact + `\u202e"}`}}},
		modeltest.Reply{Text: "Written."}, modeltest.Reply{Text: "Before the approval."},
		modeltest.Reply{Text: "After the approval."}, modeltest.Reply{Text: "Elsewhere."}, modeltest.Reply{Text: "Off."})
	a := start(t, fmt.Sprintf("models:\n  - {id: m, provider: anthropic, name: %s, base_url: %s, api_key: %s}\n", modeltest.Model, server.URL, modeltest.Key))
	set := func(memory string) {
		t.Helper()
		if status, reply := a.do("PATCH", "/v1/settings", object{"memory": memory}); status != 200 {
			t.Fatal(status, reply)
		}
	}
	set("review")
	wrote := a.finish(a.create(url, "Find out how the tests run", nil))
	type proposal struct{ Action, Title, Text string }
	var list struct {
		Items []struct {
			ID, Status string
			Revision   int
			Proposal   *proposal
			Author     struct{ AgentID string }
		}
	}
	a.get("/v1/memories", &list)
	if len(list.Items) != 1 || list.Items[0].Status != "proposed" || list.Items[0].Proposal == nil || *list.Items[0].Proposal != (proposal{"create", "Fixtures", fact}) || list.Items[0].Author.AgentID != wrote.AgentID {
		t.Fatalf("memories %+v", list)
	}
	a.finish(a.create(url, "Go on", nil))
	a.Kill()
	a.Start()
	m := list.Items[0]
	if status, reply := a.do("POST", "/v1/memories/"+m.ID+"/approve", object{"revision": m.Revision}); status != 200 {
		t.Fatal(status, reply)
	}
	later := a.finish(a.create(url, "Go on", nil))
	a.finish(a.create(other, "Go on", nil))
	set("off")
	a.finish(a.create(url, "Go on", nil))
	requests := server.Requests()
	if len(requests) != 6 {
		t.Fatalf("%d requests", len(requests))
	}
	for i, want := range []struct {
		what        string
		tool, given bool
	}{
		{"the author", true, false}, {"the author's second request", true, true}, // in its own call
		{"an agent before the approval", true, false}, {"an agent after the approval", true, true},
		{"an agent on another repository", true, false}, {"an agent with the setting off", false, false},
	} {
		body := string(requests[i].Body)
		if got := strings.Contains(body, `"UpdateMemory"`); got != want.tool {
			t.Errorf("%s is offered the tool: %v", want.what, got)
		}
		if got := strings.Contains(body, fact); got != want.given {
			t.Errorf("%s has the text: %v", want.what, got)
		}
	}
	if body := string(requests[3].Body); strings.Count(body, fact) != 1 || !strings.Contains(body, "Memories are notes that agents of earlier runs have written") {
		t.Errorf("the memory is not given as data: %s", body)
	}
	if events := a.events(later.AgentID); !strings.Contains(events, "memory/"+m.ID) {
		t.Error("the journal does not name the memory")
	}
}

// An agent that has written a skill gets it in the same run.
func TestSkillsAreReloaded(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("skills", map[string]string{"AGENTS.md": "Text of AGENTS.md.\n"})
	server := modeltest.NewAnthropic(t,
		modeltest.Reply{Calls: []modeltest.Call{
			{Name: "Write", Args: `{"path":"/workspace/.agents/skills/release/SKILL.md","contents":"---\nname: release\ndescription: How to release\n---\nText of the skill.\n"}`},
			{Name: "Write", Args: `{"path":"/workspace/AGENTS.md","contents":"Changed.\n"}`},
		}},
		modeltest.Reply{Calls: []modeltest.Call{{Name: "ReloadAgentSkills", Args: `{}`}}},
		modeltest.Reply{Text: "Finished."})
	a := start(t, fmt.Sprintf("models:\n  - {id: m, provider: anthropic, name: %s, base_url: %s, api_key: %s}\n", modeltest.Model, server.URL, modeltest.Key))
	a.finish(a.create(url, "Write a skill", nil))
	requests := server.Requests()
	for i, want := range []bool{false, false, true} {
		if got := strings.Contains(string(requests[i].Body), "/workspace/.agents/skills/release/SKILL.md): How to release"); got != want {
			t.Errorf("request %d describes the skill: %v", i, got)
		}
	}
	if last := string(requests[2].Body); !strings.Contains(last, "Skills: 1") || strings.Count(last, "Text of AGENTS.md.") != 1 {
		t.Errorf("the last request: %s", last)
	}
}

// A draft of the team's skills reaches only an agent whose prompt names it, until an admin
// publishes it.
func TestDraftOfTeamSkills(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("drafts", map[string]string{"README.md": "drafts\n"})
	server := modeltest.NewAnthropic(t,
		modeltest.Reply{Text: "Not tried."},
		modeltest.Reply{Calls: []modeltest.Call{{Name: "Read", Args: `{"path":"/tmp/aloft-skills/team/release-draft/SKILL.md"}`}}},
		modeltest.Reply{Text: "Tried."}, modeltest.Reply{Text: "Published."})
	a := start(t, fmt.Sprintf("models:\n  - {id: m, provider: anthropic, name: %s, base_url: %s, api_key: %s}\n", modeltest.Model, server.URL, modeltest.Key))
	draft := object{"text": "---\nname: release\ndescription: How to release\n---\nText of the draft.\n"}
	if status, reply := a.do("PUT", "/v1/rules/team/skills-draft.md", draft); status != 200 {
		t.Fatal(status, reply)
	}
	a.finish(a.create(url, "Make a release", nil))
	a.finish(a.create(url, "Make a release with /release-draft", nil))
	if status, reply := a.do("POST", "/v1/team/skills/publish", draft); status != 200 {
		t.Fatal(status, reply)
	}
	a.finish(a.create(url, "Make a release", nil))
	requests := server.Requests()
	if len(requests) != 4 {
		t.Fatalf("%d requests", len(requests))
	}
	for i, want := range []struct{ draft, text, published bool }{{}, {draft: true}, {draft: true, text: true}, {published: true}} {
		body := string(requests[i].Body)
		for text, want := range map[string]bool{"release-draft/SKILL.md)": want.draft, "Text of the draft.": want.text, "team/release/SKILL.md): How to release": want.published} {
			if strings.Contains(body, text) != want {
				t.Errorf("request %d has %q: %v", i, text, !want)
			}
		}
	}
}
