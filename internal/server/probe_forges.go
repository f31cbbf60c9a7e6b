package server

import (
	"context"
	"os"

	"aloft/internal/control/gateway"
	"aloft/internal/control/machine/container"
	"aloft/internal/server/gitserver"
)

// ProbeForges checks with the host of each credential that the token is valid and
// may push and open pull requests.
func ProbeForges(ctx context.Context, c gitserver.Config) ([]container.Check, error) {
	credentials, err := c.GatewayCredentials()
	if err != nil {
		return nil, UsageError{err}
	}
	dir, err := os.MkdirTemp("", "aloft-doctor-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	g, err := gateway.New(gateway.Config{Dir: dir, Credentials: credentials, Environ: os.Environ()})
	if err != nil {
		return nil, UsageError{err}
	}
	defer g.Close()
	forges, err := c.Forges(g)
	if err != nil {
		return nil, UsageError{err}
	}
	return c.Probe(ctx, forges), nil
}
