package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"aloft/internal/guest/execd"
	guest "aloft/internal/guest/mcp"
	"aloft/internal/mcp"
	"aloft/internal/wire/agentv1"
)

// serversOf returns the manager of the MCP servers that run in this machine.
func serversOf(cfg config, environ func() []string, home string, secrets *execd.Secrets, log *slog.Logger) guest.Config {
	return guest.Config{
		Workspace: cfg.Workspace, Home: home, Environ: environ, LogDir: filepath.Join(cfg.OutputDir, "mcp"), Version: version(),
		Secrets: secrets.Redactor, Log: log,
	}
}

// useServers starts the servers of --mcp-config. Remote servers in that configuration
// and in the file of --http-mcp-tools-file are only listed, because the control plane
// connects to them. With --sandbox-enabled, the servers run in the sandbox that is used
// for calls without a policy.
func useServers(cfg config, servers *guest.Manager, log *slog.Logger) error {
	if cfg.HTTPMCPToolsFile != "" {
		listings, err := readToolsFile(cfg.HTTPMCPToolsFile)
		if err != nil {
			return fmt.Errorf("%w: --http-mcp-tools-file: %w", errUsage, err)
		}
		servers.SetElsewhere(listings)
	}
	if cfg.MCPConfig == "" {
		return nil
	}
	all, findings := mcp.Parse("--mcp-config", []byte(cfg.MCPConfig), mcp.Project)
	for _, f := range findings {
		log.Warn("--mcp-config has a problem", "finding", f.String())
	}
	for _, s := range all {
		if s.Remote() {
			log.Warn("ignored a remote MCP server: the control plane connects to those", "server", s)
		}
	}
	var around guest.Around
	if cfg.Sandbox {
		wrap, err := (sandboxOf(cfg)).Around(&agentv1.SandboxPolicy{})
		if err != nil {
			return err
		}
		around = wrap
	}
	servers.Use(all, around, "")
	return nil
}

// readToolsFile reads the control plane's list of its servers: a JSON list of
// mcp.Listing.
func readToolsFile(path string) ([]mcp.Listing, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxToolsFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxToolsFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var raw []mcp.Listing
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("%s is not a JSON list of {\"server\", \"tools\"}", path)
	}
	var listings []mcp.Listing
	for _, l := range raw {
		if p := mcp.CheckName(l.Server); p != nil {
			return nil, fmt.Errorf("%s: %s", path, p.Message)
		}
		listings = append(listings, mcp.Admit(mcp.Server{Name: l.Server}, l.Instructions, l.Tools))
	}
	return listings, nil
}

// maxToolsFile is the maximum size of the file of --http-mcp-tools-file, in bytes.
const maxToolsFile = 8 << 20
