package pod

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"aloft/internal/wire/podv1"
	"aloft/internal/wire/podv1/podv1connect"
)

// SetMetadata replaces what the machine tells its processes, on the socket that
// CURSOR_AGENT_SOCKET names, of the agent and its run: text, by path.
func (c *Conn) SetMetadata(ctx context.Context, values map[string]string) error {
	client := podv1connect.NewMetadataServiceClient(c.client, "http://pod", connect.WithReadMaxBytes(maxMessage))
	if _, err := client.SetMetadata(ctx, connect.NewRequest(&podv1.SetMetadataRequest{Values: values})); err != nil {
		return fmt.Errorf("set metadata: %w", c.rpcError(err))
	}
	return nil
}
