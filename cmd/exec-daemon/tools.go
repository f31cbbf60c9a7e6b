package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"aloft/internal/guest/execd"
	"aloft/internal/guest/lsp"
	"aloft/internal/guest/mcp"
	"aloft/internal/guest/search"
	"aloft/internal/guest/shell"
	"aloft/internal/guest/tool"
	"aloft/internal/guest/web"
)

// tools are what a model may call in this machine, in the catalogue's order.
func tools(cfg config, bash *lateShell, s skills) []tool.Tool {
	cage := sandboxOf(cfg)
	ws := tool.Workspace{Dir: cfg.Workspace, Ripgrep: cfg.RgPath, Sandbox: cage, Seen: tool.NewSeen()}
	client := web.New(web.Public)
	return []tool.Tool{
		bash.tool("Shell", func(session *shell.Session) tool.Tool { return tool.Shell(session, cage) }),
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
	}
}

// sandboxOf is the sandbox that the flags ask for. What would lead out of it is
// masked: where this daemon's terminals are, and what it remembers.
func sandboxOf(cfg config) *tool.Sandbox {
	if !cfg.Sandbox {
		return nil
	}
	return &tool.Sandbox{
		Helper: cfg.SandboxHelper, Workspace: cfg.Workspace,
		Masked: []string{cfg.StateDir, cfg.TmuxSocket, cfg.IndexDir}, Fixed: []string{cfg.OutputDir},
	}
}

// skills are what some tools keep from call to call.
type skills struct {
	index   *search.Index
	linters *lsp.Pool
	servers *mcp.Manager
}

func newSkills(cfg config, log *slog.Logger, servers mcp.Config) (skills, error) {
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
		servers: mcp.New(servers),
		index:   search.New(search.Config{Dir: cfg.Workspace, State: cfg.IndexDir, Ripgrep: cfg.RgPath, Embed: meaning}),
		linters: lsp.New(lsp.Config{Dir: cfg.Workspace, MarkFile: filepath.Join(cfg.StateDir, "lint-mark.json"), Ripgrep: cfg.RgPath, Log: log}),
	}, nil
}

func (s skills) close() error {
	return errors.Join(s.servers.Close(), s.linters.Close(), s.index.Close())
}

// lateShell is a session whose bash starts beside the server: a login profile
// may take longer to read than all the rest takes to start. Its methods are
// safe for concurrent use.
type lateShell struct {
	cfg shell.Config
	log *slog.Logger

	mu      sync.Mutex
	session *shell.Session // nil until it has started
	closed  bool
	warming sync.WaitGroup
}

func newLateShell(cfg shell.Config, log *slog.Logger) *lateShell {
	return &lateShell{cfg: cfg, log: log}
}

// warm starts the session in the background.
func (b *lateShell) warm() {
	b.warming.Go(func() {
		if _, err := b.get(); err != nil {
			b.log.Error("no shell yet; the next call of it tries again", "error", err)
		}
	})
}

// get waits for the session, or starts one.
func (b *lateShell) get() (*shell.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, shell.ErrClosed
	}
	if b.session == nil {
		session, err := shell.New(b.cfg)
		if err != nil {
			return nil, err
		}
		b.session = session
	}
	return b.session, nil
}

// tool is a tool of that name that acts in the session.
func (b *lateShell) tool(name string, of func(*shell.Session) tool.Tool) tool.Tool {
	t := execd.Late(name, func() (tool.Tool, error) {
		session, err := b.get()
		return of(session), err
	})
	t.Bounded = of(nil).Bounded
	return t
}

func (b *lateShell) setEnv(ctx context.Context, set map[string]string, unset []string) error {
	session, err := b.get()
	if err != nil {
		return err
	}
	return session.Setenv(ctx, set, unset)
}

// close ends the session. Nothing starts another.
func (b *lateShell) close() error {
	b.warming.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.session == nil {
		return nil
	}
	return b.session.Close()
}
