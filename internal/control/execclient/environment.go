package execclient

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// maxEnvironmentReply is the maximum size of the reply in bytes. A reply is
// empty unless it is an error.
const maxEnvironmentReply = 64 << 10

// SetEnvironment changes the environment variables in a running machine, for
// processes that the agent starts from now on. token is exec-daemon's.
func SetEnvironment(ctx context.Context, conn Conn, token string, set map[string]string, unset []string) error {
	c := newClient(conn, token, maxEnvironmentReply, agentv1connect.NewControlServiceClient)
	defer c.Close()
	_, err := c.service.UpdateEnvironmentVariables(ctx, connect.NewRequest(&agentv1.UpdateEnvironmentVariablesRequest{Set: set, Unset: unset}))
	if err != nil {
		return fmt.Errorf("set the environment: %w", c.error(err))
	}
	return nil
}
