package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"aloft/internal/guest/file"
	"aloft/internal/guest/guard"
	"aloft/internal/guest/lsp"
	"aloft/internal/guest/mcp"
	"aloft/internal/guest/screen"
	"aloft/internal/guest/search"
	"aloft/internal/guest/shell"
	"aloft/internal/guest/tool"
	"aloft/internal/guest/video"
	"aloft/internal/guest/web"
	policy "aloft/internal/policy/sandbox"
)

// tools returns the tools that a model may call in this machine, in the order
// of the catalogue.
func tools(cfg config, bash *shells, s skills) []tool.Tool {
	sb := sandboxOf(cfg)
	ws := tool.Workspace{Dir: cfg.Workspace, Ripgrep: cfg.RgPath, Sandbox: sb, Seen: file.NewSeen(), Home: os.Getenv("HOME"), Free: append([]string{cfg.ArtifactsDir}, policy.TempFolders...)}
	client := web.New(web.Public)
	all := []tool.Tool{
		bash.tool("Shell", func(session *shell.Session) tool.Tool { return tool.Shell(session, sb) }),
		bash.tool("Await", tool.Await),
		bash.tool("WriteShellStdin", tool.WriteShellStdin),
		tool.Read(ws),
		tool.Write(ws),
		tool.StrReplace(ws),
		tool.EditNotebook(ws),
		tool.Delete(ws),
		tool.Ls(ws),
		tool.Glob(ws),
		tool.Grep(ws),
		tool.SemSearch(ws, s.index),
		tool.ReadLints(ws, s.linters),
		tool.Fetch(client),
		tool.WebFetch(ws, client),
		tool.CallMcpTool(s.servers),
		tool.ListMcpResources(s.servers),
		tool.FetchMcpResource(ws, s.servers),
		tool.McpAuth(s.servers),
		tool.ApplyAgentDiff(ws),
		tool.ComputerUse(screen.NewHand(display(cfg))),
	}
	if cfg.GenerateImage {
		all = append(all, tool.GenerateImage(ws, cfg.ArtifactsDir))
	}
	if cfg.RecordScreen {
		all = append(all, tool.RecordScreen(s.recorder))
	}
	return all
}

// display returns the display that the agent may use; "" for none.
func display(cfg config) string {
	if !cfg.ComputerUse {
		return ""
	}
	return os.Getenv("DISPLAY")
}

// sandboxOf returns the sandbox that the flags configure. It masks paths that would
// allow leaving the sandbox: the sockets of this daemon's terminals, and the daemon's
// state.
func sandboxOf(cfg config) *guard.Sandbox {
	if !cfg.Sandbox {
		return nil
	}
	return &guard.Sandbox{
		Helper: cfg.SandboxHelper, Workspace: cfg.Workspace, Home: os.Getenv("HOME"),
		Masked: []string{cfg.StateDir, cfg.TmuxSocket, cfg.IndexDir}, Fixed: []string{cfg.OutputDir},
		State: filepath.Join(cfg.StateDir, "repositories.json"),
	}
}

// skills are the parts of tools that keep state between calls.
type skills struct {
	index    *search.Index
	linters  *lsp.Pool
	servers  *mcp.Manager
	recorder *video.Recorder
}

func newSkills(cfg config, environ []string, log *slog.Logger, servers mcp.Config) (skills, error) {
	var meaning *search.Embedder
	if cfg.EmbeddingURL != "" {
		meaning = &search.Embedder{URL: cfg.EmbeddingURL, Model: cfg.EmbeddingModel}
		if cfg.EmbeddingKeyFile != "" {
			key, err := os.ReadFile(cfg.EmbeddingKeyFile)
			if err != nil {
				return skills{}, fmt.Errorf("the embedding endpoint's key: %w", err)
			}
			meaning.Key = strings.TrimSpace(string(key))
		}
	}
	return skills{
		servers:  mcp.New(servers),
		index:    search.New(search.Config{Dir: cfg.Workspace, State: cfg.IndexDir, Ripgrep: cfg.RgPath, Embed: meaning}),
		recorder: video.New(video.Config{Display: os.Getenv("DISPLAY"), Dir: cfg.RecordingDir, Artifacts: cfg.ArtifactsDir}),
		linters:  lsp.New(lsp.Config{Dir: cfg.Workspace, Env: environ, MarkFile: filepath.Join(cfg.StateDir, "lint-mark.json"), Ripgrep: cfg.RgPath, Log: log}),
	}, nil
}

func (s skills) close() error {
	return errors.Join(s.recorder.Close(), s.servers.Close(), s.linters.Close(), s.index.Close())
}
