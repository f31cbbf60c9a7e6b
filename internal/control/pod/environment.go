package pod

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// SetEnvironment changes the environment variables of processes that the agent
// starts from now on, in a running machine. token is exec-daemon's.
func (c *Conn) SetEnvironment(ctx context.Context, token string, set map[string]string, unset []string) error {
	through := newClient(c.OpenExec)
	defer through.CloseIdleConnections()
	client := agentv1connect.NewControlServiceClient(through, "http://exec",
		replyOptions(maxMessage, withToken(token), heard{c.secrets}))
	_, err := client.UpdateEnvironmentVariables(ctx, connect.NewRequest(&agentv1.UpdateEnvironmentVariablesRequest{Set: set, Unset: unset}))
	if err != nil {
		return fmt.Errorf("set the environment: %w", c.rpcError(err))
	}
	return nil
}
