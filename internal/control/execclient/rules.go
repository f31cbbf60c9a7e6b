package execclient

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/rule"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// Limits for a machine's reply about rules.
const (
	maxRulesReply = 4 << 20 // bytes
	rulesPatience = 5 * time.Second
)

// Rules reads the rules of the repositories in a machine. Its methods are safe
// for concurrent use.
type Rules struct {
	client[agentv1connect.RulesServiceClient]
}

// NewRules returns the machine's rules. token is exec-daemon's. The caller must
// call Close.
func NewRules(conn Conn, token string) *Rules {
	return &Rules{newClient(conn, token, maxRulesReply, agentv1connect.NewRulesServiceClient)}
}

// Read returns the rules of the folders. The rules come from the machine, so
// Read enforces limits. The error wraps [pod.ErrLost] if the machine is gone.
func (r *Rules) Read(ctx context.Context, folders []rule.Folder) (rule.Set, error) {
	req := &agentv1.ReadRulesRequest{}
	for _, f := range folders {
		req.Folders = append(req.Folders, &agentv1.RulesFolder{Repository: f.Repository, Folder: f.Path})
	}
	ctx, cancel := context.WithTimeout(ctx, rulesPatience)
	defer cancel()
	res, err := r.service.ReadRules(ctx, connect.NewRequest(req))
	if connect.CodeOf(err) == connect.CodeUnimplemented { // the machine is older than rules
		return rule.Set{}, nil
	}
	if err != nil {
		return rule.Set{}, fmt.Errorf("read the rules: %w", r.conn.Lost(err))
	}
	var said rule.Set
	for _, m := range res.Msg.GetRules() {
		said.Rules = append(said.Rules, rule.Rule{
			Source: m.GetSource(), From: rule.Repository, When: rule.When(m.GetWhen()), Folder: m.GetFolder(), Nested: m.GetNested(),
			Kind: rule.Kind(m.GetKind()), Label: m.GetName(), Globs: m.GetGlobs(), Description: m.GetDescription(), Imports: m.GetImports(), Text: m.GetText(),
		})
	}
	for _, l := range res.Msg.GetLeftOut() {
		said.LeftOut = append(said.LeftOut, rule.LeftOut{Source: l.GetSource(), Why: l.GetWhy()})
	}
	return rule.Admit(folders, said), nil
}
