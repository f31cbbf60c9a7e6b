package api

import (
	"strings"
	"testing"

	"aloft/internal/control/api/rest"
)

// TestPartsAreRequired checks that a server without a required part fails at
// its start, not at the first request that uses the part.
func TestPartsAreRequired(t *testing.T) {
	h := newHouse(t)
	for name, drop := range map[string]func(*Config){
		"Config.Shared.Journal":            func(c *Config) { c.Shared.Journal = nil },
		"Config.Approvals.Review":          func(c *Config) { c.Approvals.Review = nil },
		"Config.Agents.Ports":              func(c *Config) { c.Agents.Ports = nil },
		"Config.MCPServers.MCP":            func(c *Config) { c.MCPServers.MCP = nil },
		"Config.Shared.Saved":              func(c *Config) { c.Shared.Saved = nil },
		"Config.Accounts.SignIn":           func(c *Config) { c.Accounts.SignIn = nil },
		"Config.Shared is empty otherwise": func(c *Config) { c.Shared = rest.Shared{} },
	} {
		c := h.api.config
		drop(&c)
		_, err := newServer(c)
		if err == nil || !strings.Contains(err.Error(), strings.Fields(name)[0]) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	if _, err := newServer(h.api.config); err != nil {
		t.Error(err)
	}
}
