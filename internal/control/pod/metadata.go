package pod

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"aloft/internal/control/machinerpc"
	"aloft/internal/wire/podv1"
	"aloft/internal/wire/podv1/podv1connect"
)

// SetMetadata replaces the metadata about the agent and its run: texts by path.
// Processes can read it on the machine's socket CURSOR_AGENT_SOCKET.
func (c *Conn) SetMetadata(ctx context.Context, values map[string]string) error {
	client := podv1connect.NewMetadataServiceClient(c.client, "http://pod", machinerpc.Options(maxMessage))
	if _, err := client.SetMetadata(ctx, connect.NewRequest(&podv1.SetMetadataRequest{Values: values})); err != nil {
		return fmt.Errorf("set metadata: %w", c.rpcError(err))
	}
	return nil
}
