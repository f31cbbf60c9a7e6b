package review

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/policy/permit"
)

// CheckEntries returns an error if the entries would not allow the call of an
// approval. always means that the user wants to add the entries to their
// permissions.json.
func (r *Reviewer) CheckEntries(ctx context.Context, a agent.Agent, q agent.Approval, entries []string, always bool) error {
	if len(entries) == 0 {
		return fmt.Errorf("calls like this one can be allowed only once")
	}
	kind, server, mcp := kindOf(q)
	if always {
		team, err := r.Rules.Rule(ctx, store.TeamRules, permissionsFile)
		if err != nil {
			return err
		}
		if team != "" {
			return fmt.Errorf("the team has a %s, so yours has no effect", permissionsFile)
		}
		if listOf(q) == "" {
			return fmt.Errorf("%s has no list for calls of %s", permissionsFile, q.Tool)
		}
	}
	switch {
	case kind == permit.Shell:
		p, err := r.permissions(ctx, a)
		if err != nil {
			return err
		}
		p.TerminalAllowlist = slices.Concat(p.TerminalAllowlist, entries)
		if v := p.JudgeLine(q.Subject); !v.Allowed && (always || !slices.Contains(entries, q.Subject)) {
			return fmt.Errorf("with these entries the line would still not be allowed: %s", v.Why)
		}
	case kind == permit.MCP && always:
		if p := (permit.Permissions{MCPAllowlist: entries}); p.AllowsMCP(server, mcp) == "" {
			return fmt.Errorf("none of these entries allows %s", q.Subject)
		}
	case !slices.Equal(entries, q.Entries):
		return fmt.Errorf("the entries can only be %q", q.Entries)
	}
	return nil
}

// kindOf returns the kind of call that an approval is about.
func kindOf(q agent.Approval) (kind permit.Kind, server, mcp string) {
	if q.Tool == "Shell" {
		return permit.Shell, "", ""
	}
	if server, mcp, ok := grantedMCP(q); ok {
		return permit.MCP, server, mcp
	}
	return permit.Other, "", ""
}

// listOf returns the name of the list in permissions.json for calls of the
// kind, or "" if there is none.
func listOf(q agent.Approval) string {
	switch kind, _, _ := kindOf(q); kind {
	case permit.Shell:
		return "terminalAllowlist"
	case permit.MCP:
		return "mcpAllowlist"
	}
	return ""
}

// Allow adds entries for calls of the given kind to a user's permissions.json.
// The rest of the file, including comments, stays unchanged.
func (r *Reviewer) Allow(ctx context.Context, userID int64, q agent.Approval, entries []string) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	owner := store.RulesOf(userID)
	text, err := r.Rules.Rule(ctx, owner, permissionsFile)
	if err != nil {
		return err
	}
	changed, err := permit.Add([]byte(text), listOf(q), entries)
	if err != nil {
		return fmt.Errorf("your %s: %w", permissionsFile, err)
	}
	if strings.TrimSpace(string(changed)) == strings.TrimSpace(text) {
		return nil
	}
	return r.Rules.SetRule(ctx, owner, permissionsFile, string(changed))
}
