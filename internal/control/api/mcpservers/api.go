// Package mcpservers is the part of the REST API for the MCP servers of people,
// of the team and of agents, and for signing in to them.
package mcpservers

import (
	"aloft/internal/control/api/rest"
	"aloft/internal/control/mcp"
)

// Config holds the dependencies that only this package uses.
type Config struct {
	MCP      *mcp.Servers
	AgentMCP AgentMCP
}

// API serves the MCP servers.
type API struct {
	*rest.Shared
	Config
}

// New returns an API.
func New(s *rest.Shared, c Config) *API { return &API{s, c} }
