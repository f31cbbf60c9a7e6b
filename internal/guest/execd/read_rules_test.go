package execd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// rulesOf returns ReadRules' reply for a workspace that contains the files.
func rulesOf(t *testing.T, files map[string]string, which RuleFiles) *agentv1.ReadRulesResponse {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := serve(t, Config{Workspace: dir, Secrets: NewSecrets(injected), Rules: which})
	client := agentv1connect.NewRulesServiceClient(r.client, r.url, connect.WithInterceptors(bearer(testToken)))
	res, err := client.ReadRules(t.Context(), connect.NewRequest(&agentv1.ReadRulesRequest{Folders: []*agentv1.RulesFolder{{}, {Folder: "web"}}}))
	if err != nil {
		t.Fatal(err)
	}
	return res.Msg
}

func TestReadRules(t *testing.T) {
	files := map[string]string{
		"AGENTS.md": "The key is " + secret + ".\n@docs/hidden.md\n# Cursor Cloud specific instructions\nOf the VM.\n", "web/CLAUDE.md": "Of web.",
		"web/.agents/skills/x/SKILL.md": "---\nname: y\ndescription: About " + secret + "\n---\nSteps.\n",
		".cursor/rules/go.mdc":          "---\nglobs: *.go\n---\nOf Go.\n", "docs/hidden.md": "Hidden text.", ".cursorignore": "docs\n",
	}
	res := rulesOf(t, files, RuleFiles{AgentFiles: true, CloudNotes: true})
	if len(res.GetRules()) != 4 {
		t.Fatalf("got %v", res)
	}
	agents, rule, web := res.GetRules()[0], res.GetRules()[1], res.GetRules()[2]
	if text := agents.GetText(); !strings.HasPrefix(text, "The key is [REDACTED].") || !strings.Contains(text, "Of the VM.") || strings.Contains(text, "Hidden") {
		t.Errorf("AGENTS.md is %q", text)
	}
	if rule.GetWhen() != "files" || len(rule.GetGlobs()) != 1 || rule.GetText() != "Of Go." || web.GetSource() != "web/CLAUDE.md" || !web.GetNested() || web.GetFolder() != "web" {
		t.Errorf("got %v and %v", rule, web)
	}
	if skill := res.GetRules()[3]; skill.GetKind() != "skill" || skill.GetName() != "y" || skill.GetDescription() != "About [REDACTED]" || skill.GetText() != "" {
		t.Errorf("got %v", skill)
	}
	if left := res.GetLeftOut(); len(left) != 1 || left[0].GetSource() != "AGENTS.md" || !strings.Contains(left[0].GetWhy(), "hidden from the agent") {
		t.Errorf("left out %v", left)
	}
	if res := rulesOf(t, files, RuleFiles{AgentFiles: true}); strings.Contains(res.GetRules()[0].GetText(), "VM") {
		t.Errorf("notes for background agents are in %v", res)
	}
	if res := rulesOf(t, files, RuleFiles{CloudNotes: true}); len(res.GetRules()) != 2 || res.GetRules()[0].GetText() != "Of Go." {
		t.Errorf("without AGENTS.md and CLAUDE.md: %v", res)
	}
}
