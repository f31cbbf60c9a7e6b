package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"aloft/internal/agent"
)

// TestServersOfPlugins checks which servers a repository configures, in its own file and
// in those of its plugins.
func TestServersOfPlugins(t *testing.T) {
	t.Parallel()
	server := func(name string) string {
		return `{"mcpServers":{"` + name + `":{"url":"https://mcp.example.com/` + name + `"}}}`
	}
	files := map[string]string{
		".cursor/mcp.json": server("own"), ".cursor-plugin/plugin.json": `{"name":"root"}`, "mcp.json": server("root"),
		".cursor/plugins/a/.cursor-plugin/plugin.json": `{"name":"a"}`, ".cursor/plugins/a/mcp.json": server("a"),
		".cursor/plugins/top/.cursor-plugin/plugin.json": `{"name":"top"}`, ".cursor/plugins/top/mcp.json": `{"flat":{"url":"https://mcp.example.com/flat"}}`,
		".cursor/plugins/none/.cursor-plugin/plugin.json": `{"name":"none"}`,
		".cursor/plugins/bad/.cursor-plugin/plugin.json":  `{"name":"../bad"}`, ".cursor/plugins/bad/mcp.json": server("bad"),
	}
	g := NewAgents(AgentsConfig{
		File: func(_ context.Context, _ agent.Agent, commit, path string) ([]byte, error) {
			if text, ok := files[path]; ok && commit == "default" {
				return []byte(text), nil
			}
			return nil, nil
		},
		Plugins: func(_ context.Context, _ agent.Agent, commit string) ([]string, error) {
			return []string{".cursor/plugins/a", ".cursor/plugins/bad", ".cursor/plugins/none", ".cursor/plugins/top"}, errors.New("one is missing")
		},
	})
	var a agent.Agent
	a.Repos = []agent.Repo{{URL: "https://git.test/o/r"}}
	a.RulesAt = "default"
	servers, left := g.project(t.Context(), a)
	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	if fmt.Sprint(names) != "[own a flat]" {
		t.Errorf("servers %q", names)
	}
	if len(left) != 2 || left[0].Name != "plugins" || left[1].Name != ".cursor/plugins/bad/.cursor-plugin/plugin.json" || !strings.Contains(left[1].Why, "its manifest has no valid name") {
		t.Errorf("left out %+v", left)
	}
}
