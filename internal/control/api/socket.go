package api

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
)

// allowedEvery is the interval of re-authorizing an open WebSocket or stream.
const allowedEvery = 15 * time.Second

// whileAllowed returns the request with a context that is cancelled soon after
// the caller loses access: by signing out, by an expired or deleted key, by a
// reduced role, or because the agent has another owner. The caller must call
// left at the end.
func (s *server) whileAllowed(r *http.Request, rt rest.Route) (_ *http.Request, left func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	r = r.WithContext(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(s.allowed)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// If the store does not answer, keep the connection.
			if err := s.stillMay(r, rt); err != nil && !fault.Is(err, fault.KindInternal) {
				cancel(err)
			}
		}
	})
	return r, func() { cancel(nil); looking.Wait() }
}

// stillMay checks again whether the request is authorized.
func (s *server) stillMay(r *http.Request, rt rest.Route) error {
	who, err := s.Identify(r)
	if err == nil {
		err = rest.MayUse(rt, who)
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(rt.Path, "/v1/agents/{id}/") {
		_, err = s.Agent(r.Context(), who, r.PathValue("id"))
	} else {
		_, err = s.environments.Build(r, who, false)
	}
	return err
}
