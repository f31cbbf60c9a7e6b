// Package stream is the part of the REST API that shows the journal of an
// agent, either as its events, or as the frames that the projector makes of a
// run's events.
package stream

import (
	"time"

	"aloft/internal/control/api/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/live"
)

// Config holds the dependencies that only this package uses.
type Config struct {
	Live *live.Board `needed:"no"` // the calls that models are writing; nil shows no partial calls
}

// API serves the streams.
type API struct {
	*rest.Shared
	Config
	agents *agents.API
	// Heartbeat is the interval of heartbeats in a stream that has nothing to
	// send. DraftsEvery is the minimum time between two updates of what a model
	// is writing.
	Heartbeat, DraftsEvery time.Duration
}

// New returns an API.
func New(s *rest.Shared, c Config, a *agents.API) *API {
	return &API{Shared: s, Config: c, agents: a, Heartbeat: rest.HeartbeatEvery, DraftsEvery: draftsEvery}
}
