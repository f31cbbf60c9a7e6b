package api

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"aloft/internal/fault"
)

// allowedEvery is how often it is looked whether a WebSocket or a stream may go on.
const allowedEvery = 15 * time.Second

// whileAllowed gives the request of a WebSocket or a stream a context that ends soon after
// whoever opened it may not any more: signed out, an expired or deleted key, a
// lesser role, an agent of another's. left is to be called when it is over.
func (s *server) whileAllowed(r *http.Request, rt route) (_ *http.Request, left func()) {
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
			// A store that does not answer forbids nothing.
			if err := s.stillMay(r, rt); err != nil && !fault.Is(err, fault.KindInternal) {
				cancel(err)
			}
		}
	})
	return r, func() { cancel(nil); looking.Wait() }
}

// stillMay judges a request anew.
func (s *server) stillMay(r *http.Request, rt route) error {
	who, err := s.identify(r)
	if err == nil {
		err = mayUse(rt, who)
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(rt.path, "/v1/agents/{id}/") {
		_, err = s.agent(r.Context(), who, r.PathValue("id"))
	} else {
		_, err = s.build(r, who, false)
	}
	return err
}
