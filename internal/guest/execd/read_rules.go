package execd

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/guest/file"
	"aloft/internal/guest/rulefile"
	"aloft/internal/rule"
	"aloft/internal/wire/agentv1"
)

// RuleFiles selects the rule files that ReadRules reads in addition to the rule folders.
type RuleFiles struct {
	AgentFiles bool // AGENTS.md and CLAUDE.md
	CloudNotes bool // with their sections for background agents
}

// ReadRules implements RulesService. It leaves out files that .cursorignore
// hides.
func (s *Server) ReadRules(ctx context.Context, req *connect.Request[agentv1.ReadRulesRequest]) (*connect.Response[agentv1.ReadRulesResponse], error) {
	var folders []rule.Folder
	for _, f := range req.Msg.GetFolders() {
		folders = append(folders, rule.Folder{Repository: f.GetRepository(), Path: f.GetFolder()})
	}
	o := rulefile.Options{Workspace: s.workspace, AgentFiles: s.rules.AgentFiles, CloudNotes: s.rules.CloudNotes, Check: file.NewUnseen(s.workspace).Check}
	found, err := rulefile.Read(ctx, o, folders)
	if err != nil {
		return nil, err
	}
	res := &agentv1.ReadRulesResponse{}
	for _, r := range found.Rules {
		res.Rules = append(res.Rules, &agentv1.Rule{
			Source: valid(r.Source, maxText), When: string(r.When), Folder: valid(r.Folder, maxText), Nested: r.Nested,
			Kind: string(r.Kind), Name: r.Label, Globs: r.Globs, Description: r.Description, Imports: r.Imports, Text: r.Text,
		})
	}
	for _, l := range found.LeftOut {
		res.LeftOut = append(res.LeftOut, &agentv1.LeftOutRule{Source: valid(l.Source, maxReason), Why: valid(l.Why, maxReason)})
	}
	return connect.NewResponse(res), nil
}
