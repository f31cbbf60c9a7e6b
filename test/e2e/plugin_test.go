package e2e

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/model/modeltest"
)

// A plugin in the repository provides rules, a skill, a command, a subagent, hooks and an
// MCP server. A folder without a manifest provides nothing, although it looks the same.
func TestPlugin(t *testing.T) {
	t.Parallel()
	tickets, called := ticketServer("ada")
	mcp := httptest.NewServer(tickets)
	t.Cleanup(func() {
		mcp.CloseClientConnections() // Close would wait for the idle stream
		mcp.Close()
	})
	files := map[string]string{"README.md": "plugin\n"}
	for _, name := range []string{"acme", "fake"} {
		at := ".cursor/plugins/" + name + "/"
		servers, err := json.Marshal(object{"mcpServers": object{name + "-tickets": object{"url": mcp.URL}}})
		if err != nil {
			t.Fatal(err)
		}
		files[at+"rules/style.mdc"] = "---\nalwaysApply: true\n---\nRule of " + name + ".\n"
		files[at+"skills/"+name+"-release/SKILL.md"] = "---\nname: " + name + "-release\ndescription: How " + name + " releases\n---\nSteps.\n"
		files[at+"commands/check.md"] = "Command of " + name + ".\n"
		files[at+"agents/"+name+"-looker.md"] = "---\nname: " + name + "-looker\ndescription: looks for " + name + "\n---\nYou look.\n"
		files[at+"hooks/hooks.json"] = `{"version":1,"hooks":{"postToolUse":[{"matcher":"^Read$","command":"sh \"$CURSOR_PLUGIN_ROOT/hooks/say.sh\""}]}}`
		files[at+"hooks/say.sh"] = `echo '{"additional_context":"Hook of ` + name + `."}'` + "\n"
		files[at+"mcp.json"] = string(servers)
	}
	files[".cursor/plugins/acme/.cursor-plugin/plugin.json"] = `{"name":"acme","version":"1.0.0"}`
	git := gittest.New(t)
	url := git.Repo("plugin", files)
	server := modeltest.NewAnthropic(t,
		modeltest.Reply{Calls: []modeltest.Call{{Name: "Read", Args: `{"path":"/workspace/README.md"}`}}},
		modeltest.Reply{Calls: []modeltest.Call{{Name: "CallMcpTool", Args: `{"server":"acme-tickets","tool_name":"search"}`}}},
		modeltest.Reply{Text: "Finished."})
	a := start(t, fmt.Sprintf("models:\n  - {id: m, provider: anthropic, name: %s, base_url: %s, api_key: %s}\nmachine: {egress: {mode: allow_all, open: [127.0.0.1/32]}}\noutbound: {open: [127.0.0.1/32]}\n", modeltest.Model, server.URL, modeltest.Key))
	r := a.finish(a.create(url, "/check it", nil))
	requests := server.Requests()
	if len(requests) != 3 {
		t.Fatalf("%d requests: %+v", len(requests), r)
	}
	first, last := string(requests[0].Body), string(requests[2].Body)
	for _, text := range []string{"Rule of acme.", "acme-release (/workspace/.cursor/plugins/acme/skills/acme-release/SKILL.md): How acme releases", "Command of acme.", "acme-looker: looks for acme", "acme-tickets"} {
		if !strings.Contains(first, text) {
			t.Errorf("the model is not told %q", text)
		}
	}
	for _, text := range []string{"Hook of acme.", "ticket 7 for ada is open"} {
		if !strings.Contains(last, text) {
			t.Errorf("the model is not told %q:\n%s", text, a.events(r.AgentID))
		}
	}
	for _, text := range []string{"Rule of fake", "fake-release", "Command of fake", "fake-looker", "Hook of fake", "fake-tickets"} {
		if strings.Contains(last, text) {
			t.Errorf("the model is told %q", text)
		}
	}
	if called.Load() != 1 {
		t.Errorf("the MCP server was called %d times", called.Load())
	}
}
