package e2e

import (
	"fmt"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/conversation"
)

// A model gets the rules of the repository, the team and the user when they
// apply, and again after the conversation was summarized.
func TestRules(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("rules", map[string]string{
		"AGENTS.md": "Text of AGENTS.md.\n@docs/style.md\n@/etc/passwd.md\n# Cursor Cloud specific instructions\nText about the VM.\n", "docs/style.md": "Text of the style.\n",
		".cursor/rules/go.mdc": "---\nglobs: *.go\n---\nText for Go files.\n", ".cursor/rules/db.mdc": "---\ndescription: How to migrate\n---\nText of migrations.\n",
		".agents/skills/release/SKILL.md": "---\nname: release\ndescription: How to release\n---\nText of the skill.\n", ".cursor/commands/check.md": "Text of the command.\n", ".cursor/commands/other.md": "Text of another command.\n",
		"web/AGENTS.md": "Text of web.\n", "web/main.go": "package main\n", "README.md": "rules\n",
	})
	server := modeltest.NewAnthropic(t,
		modeltest.Reply{Calls: []modeltest.Call{{Name: "Read", Args: `{"path":"README.md"}`}, {Name: "Read", Args: `{"path":"/tmp/aloft-skills/team/deploy/SKILL.md"}`}}},
		modeltest.Reply{Calls: []modeltest.Call{{Name: "Read", Args: `{"path":"/workspace/web/main.go"}`}}},
		modeltest.Reply{Calls: []modeltest.Call{{Name: "Shell", Args: `{"command":"seq 4000"}`}}, Usage: conversation.Usage{Input: 17_000, Output: 10}},
		modeltest.Reply{Text: "A summary."},
		modeltest.Reply{Text: "Finished."},
		modeltest.Reply{Text: "Finished again."})
	a := start(t, fmt.Sprintf("models:\n  - {id: m, provider: anthropic, name: %s, base_url: %s, api_key: %s, context_window: 20000}\n", modeltest.Model, server.URL, modeltest.Key))
	for owner, text := range map[string]string{"me": "Text of the user.", "team": "Text of the team."} {
		if status, reply := a.do("PUT", "/v1/rules/"+owner+"/rules.md", object{"text": text}); status != 200 {
			t.Fatal(status, reply)
		}
	}
	if status, reply := a.do("PUT", "/v1/rules/team/skills.md", object{"text": "---\nname: deploy\ndescription: How to deploy\n---\nText of the deployment.\n"}); status != 200 {
		t.Fatal(status, reply)
	}
	r := a.finish(a.create(url, "Do it, then /check it", nil))
	if r.Result != "Finished." {
		t.Fatalf("the result is %q", r.Result)
	}
	requests := server.Requests()
	always := []string{"Text of the team.", "Text of AGENTS.md.", "Text of the style.", "Text about the VM.", "Text of the user.", "/workspace/.cursor/rules/db.mdc: How to migrate", "/workspace/.agents/skills/release/SKILL.md): How to release", "/tmp/aloft-skills/team/deploy/SKILL.md): How to deploy", "Text of the command."}
	for _, row := range []struct {
		n         int
		want, not []string
	}{
		{0, append(always, "/etc/passwd.md: it is outside the repository"), []string{"Text for Go files.", "Text of web.", "Text of migrations.", "Text of the skill.", "Text of the deployment.", "Text of another command."}},
		{1, append(always, "Text of the deployment."), []string{"Text for Go files.", "Text of web."}},
		{2, append(always, "Text for Go files.", "Text of web."), nil},
		{4, append(always, "Text for Go files.", "Text of web.", "A summary."), []string{"Text of migrations.", "Text of the skill.", "Text of another command."}},
	} {
		body := string(requests[row.n].Body)
		for _, text := range row.want {
			if n := strings.Count(body, text); n != 1 {
				t.Errorf("request %d has %q %d times", row.n, text, n)
			}
		}
		for _, text := range row.not {
			if strings.Contains(body, text) {
				t.Errorf("request %d has %q", row.n, text)
			}
		}
	}
	if events := a.events(r.AgentID); strings.Count(events, `"kind":"rules.found"`) != 2 || strings.Count(events, `"kind":"rules.given"`) != 2 {
		t.Errorf("the journal does not say what was found and given:\n%s", events)
	}
	a.finish(a.followUp(r, "Again"))
	if requests = server.Requests(); strings.Count(string(requests[len(requests)-1].Body), "Text of AGENTS.md.") != 1 {
		t.Error("the next run gives unchanged rules again, or loses them")
	}
}
