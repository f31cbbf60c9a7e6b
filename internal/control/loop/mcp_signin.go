package loop

import (
	"context"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/offer"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/tool"
)

// signIn asks the agent's owner to sign in to a remote server. It creates an
// approval request that waits for them without limit and that the sign-in
// itself resolves.
func (t *thread) signIn(ctx context.Context, c agent.Call, server mcp.Server) error {
	if c.Approval == nil {
		where, err := t.Tools.MCP.SignIn(ctx, t.state(), server)
		if err != nil || where == "" {
			return t.signedIn(ctx, c, server, err, "no sign-in is needed for "+server.Name)
		}
		q := agent.Approval{Subject: server.Name, Why: "the MCP server requires you to sign in: " + where}
		if err := t.askPerson(ctx, &c, q, &agent.CallSent{CallID: c.ID}); err != nil {
			return err
		}
	}
	if err := t.await(ctx, &c); err != nil {
		return err
	}
	if !c.Answer.Decision.Allows() {
		message := "the user declined to sign in to " + server.Name
		if c.Answer.Message != "" {
			message += ", and says: " + c.Answer.Message
		}
		return t.done(ctx, c.ID, tool.Failed("%s", message), time.Since(c.Approval.AskedAt))
	}
	t.offers.Forget(server)
	where, err := t.Tools.MCP.SignIn(ctx, t.state(), server)
	if err == nil && where != "" {
		err = fault.Denied("the user answered without signing in to %s", server.Name)
	}
	return t.signedIn(ctx, c, server, err, "the user has signed in to "+server.Name)
}

// signedIn journals the outcome of a sign-in request.
func (t *thread) signedIn(ctx context.Context, c agent.Call, server mcp.Server, err error, words string) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return t.done(ctx, c.ID, tool.Failed("%s", fault.Of(err).Message), 0)
	}
	return t.done(ctx, c.ID, offer.Success(words+": its tools are listed next.", map[string]any{"server": server.Name, "authorizationUrl": ""}), 0)
}
