package execclient

import (
	"context"
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/redact"
	"aloft/internal/rule"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

type rulesServer func(*agentv1.ReadRulesRequest) (*agentv1.ReadRulesResponse, error)

func (s rulesServer) ReadRules(_ context.Context, req *connect.Request[agentv1.ReadRulesRequest]) (*connect.Response[agentv1.ReadRulesResponse], error) {
	res, err := s(req.Msg)
	return connect.NewResponse(res), err
}

func rulesTo(t *testing.T, answer rulesServer) *Rules {
	t.Helper()
	path, handler := agentv1connect.NewRulesServiceHandler(answer)
	r := NewRules(testConn{dial: execDaemon(t, path, handler), lost: still, redactor: redact.New(map[string]string{"KEY": "secret-value"})}, "token")
	t.Cleanup(r.Close)
	return r
}

// The client redacts and checks a machine's report about rules.
func TestReadRules(t *testing.T) {
	folders := []rule.Folder{{}, {Repository: "", Path: "web"}}
	got, err := rulesTo(t, func(req *agentv1.ReadRulesRequest) (*agentv1.ReadRulesResponse, error) {
		if len(req.GetFolders()) != 2 || req.GetFolders()[1].GetFolder() != "web" {
			t.Errorf("asked for %v", req)
		}
		return &agentv1.ReadRulesResponse{
			Rules: []*agentv1.Rule{
				{Source: "AGENTS.md", When: "always", Text: "Use secret-value."},
				{Source: "web/.cursor/rules/a.mdc", When: "files", Folder: "web", Globs: []string{"*.ts"}, Text: "Types."},
				{Source: "web/.cursor/skills/x/SKILL.md", When: "request", Folder: "web", Kind: "skill", Name: "X", Description: "About X"},
				{Source: "web/.cursor/skills/y/SKILL.md", When: "request", Folder: "web", Kind: "skill", Text: "no skill has a text"},
				{Source: "etc/AGENTS.md", When: "always", Folder: "etc", Text: "Nobody asked for it."},
				{Source: "AGENTS.md", When: "always", Text: strings.Repeat("x", rule.MaxText+1)},
			},
			LeftOut: []*agentv1.LeftOutRule{{Source: "CLAUDE.md", Why: "it holds secret-value"}},
		}, nil
	}).Read(t.Context(), folders)
	if err != nil || len(got.Rules) != 3 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if r := got.Rules[0]; r.Text != "Use [REDACTED]." || r.From != rule.Repository || r.Nested {
		t.Errorf("got %+v", r)
	}
	if r := got.Rules[1]; !r.Nested || r.When != rule.OnFiles || !r.Matches("web/x/a.ts") {
		t.Errorf("got %+v", r)
	}
	if r := got.Rules[2]; r.Kind != rule.Skill || r.Name() != "X" || r.Description != "About X" {
		t.Errorf("got %+v", r)
	}
	if len(got.LeftOut) != 2 || got.LeftOut[0].Why != "it holds [REDACTED]" || !strings.HasPrefix(got.LeftOut[1].Why, "3 rules") {
		t.Errorf("left out %+v", got.LeftOut)
	}
}

func TestReadRulesOfOtherMachines(t *testing.T) {
	for name, row := range map[string]struct {
		answer error
		failed bool
	}{
		"Older":  {connect.NewError(connect.CodeUnimplemented, errors.New("unknown")), false},
		"Broken": {connect.NewError(connect.CodeInternal, errors.New("no")), true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rulesTo(t, func(*agentv1.ReadRulesRequest) (*agentv1.ReadRulesResponse, error) { return nil, row.answer }).Read(t.Context(), []rule.Folder{{}})
			if (err != nil) != row.failed || len(got.Rules) > 0 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
