package loop

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/control/loop/offer"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/tool"
)

// signIn asks the agent's owner to sign in to a remote server. It creates an
// approval request without a timeout, which the sign-in resolves.
func (t *thread) signIn(ctx context.Context, c agent.Call, server mcp.Server) (outcome, error) {
	if c.Approval == nil {
		where, err := t.Tools.MCP.SignIn(ctx, t.state(), server)
		if err != nil || where == "" {
			return signedIn(ctx, server, err, "no sign-in is needed for "+server.Name)
		}
		q := agent.Approval{Subject: server.Name, Why: "the MCP server requires you to sign in: " + where}
		if err := t.askPerson(ctx, &c, q, &agent.CallSent{CallID: c.ID}); err != nil {
			return outcome{}, err
		}
	}
	if err := t.await(ctx, &c); err != nil {
		return outcome{}, err
	}
	if !c.Answer.Decision.Allows() {
		message := "the user declined to sign in to " + server.Name
		if c.Answer.Message != "" {
			message += ", and says: " + c.Answer.Message
		}
		return failed(c.Approval.AskedAt, "%s", message), nil
	}
	t.offers.Forget(server)
	where, err := t.Tools.MCP.SignIn(ctx, t.state(), server)
	if err == nil && where != "" {
		err = fault.Denied("the user answered without signing in to %s", server.Name)
	}
	return signedIn(ctx, server, err, "the user has signed in to "+server.Name)
}

// signedIn returns the outcome of a sign-in request.
func signedIn(ctx context.Context, server mcp.Server, err error, words string) (outcome, error) {
	if cause := context.Cause(ctx); cause != nil {
		return outcome{}, cause
	}
	if err != nil {
		return outcome{result: tool.Failed("%s", fault.Of(err).Message)}, nil
	}
	return outcome{result: offer.Success(words+": its tools are listed next.", map[string]any{"server": server.Name, "authorizationUrl": ""})}, nil
}
