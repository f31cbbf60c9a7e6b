package adapter

import (
	"context"
	"errors"

	environmentapi "aloft/internal/control/api/environments"
	machineapi "aloft/internal/control/api/machines"
	"aloft/internal/control/build"
	"aloft/internal/control/execclient"
	"aloft/internal/environment"
)

// Builds implements [environmentapi.Builder].
type Builds struct{ *build.Builder }

var _ environmentapi.Builder = Builds{}

// Demand implements [environmentapi.Builder].
func (b Builds) Demand(ctx context.Context, w environmentapi.BuildRequest, tell func(string)) (environment.Record, error) {
	return b.Builder.Demand(ctx, build.Request(w), tell)
}

// Enter implements [environmentapi.Builder].
func (b Builds) Enter(ctx context.Context, buildID string) (machineapi.PTY, error) {
	visit, err := b.Builder.Enter(ctx, buildID)
	if err != nil {
		return nil, err
	}
	ws, err := execclient.DialPTY(ctx, visit.Conn, visit.Token)
	if err != nil {
		return nil, errors.Join(err, visit.Close())
	}
	return pty{ws, visit}, nil
}
