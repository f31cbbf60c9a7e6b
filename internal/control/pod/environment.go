package pod

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// SetEnvironment changes the environment variables of processes that the agent
// starts from now on, in a running machine. token is exec-daemon's.
func (c *Conn) SetEnvironment(ctx context.Context, token string, set map[string]string, unset []string) error {
	var h2c http.Protocols
	h2c.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: &h2c, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.OpenExec(ctx) },
	}
	defer transport.CloseIdleConnections()
	client := agentv1connect.NewControlServiceClient(&http.Client{Transport: transport}, "http://exec",
		connect.WithInterceptors(withToken(token), heard{c.secrets}), connect.WithReadMaxBytes(maxMessage))
	_, err := client.UpdateEnvironmentVariables(ctx, connect.NewRequest(&agentv1.UpdateEnvironmentVariablesRequest{Set: set, Unset: unset}))
	if err != nil {
		return fmt.Errorf("set the environment: %w", c.rpcError(err))
	}
	return nil
}
