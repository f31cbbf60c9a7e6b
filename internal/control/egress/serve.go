package egress

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"aloft/internal/policy"
)

// Paths of the control API.
const (
	connectionsPath = "/connections"
	policyPath      = "/policy"
)

// maxPolicy is the maximum size of a policy as JSON, in bytes.
const maxPolicy = 4 << 20

// longestWait is the maximum time that a client can wait for the next record.
const longestWait = time.Minute

// Serve serves the control API on l until ctx ends, which is not an error. It
// does not close the gateway.
func Serve(ctx context.Context, l net.Listener, g *Gateway) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+connectionsPath, g.serveConnections)
	mux.HandleFunc("PUT "+policyPath, func(w http.ResponseWriter, r *http.Request) {
		var n policy.Network
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPolicy)).Decode(&n); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := g.SetPolicy(n); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	end := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if s.Shutdown(last) != nil {
			_ = s.Close()
		}
	})
	defer end()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// serveConnections returns the records after a sequence number. If the request
// says so, it waits until there is a record.
func (g *Gateway) serveConnections(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	after, _ := strconv.ParseUint(q.Get("after"), 10, 64) // 0 if absent
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit <= 0 || limit > maxRecords {
		limit = maxRecords
	}
	wait, _ := time.ParseDuration(q.Get("wait")) // 0 if absent
	timer := time.NewTimer(min(wait, longestWait))
	defer timer.Stop()
	for {
		ended, more := g.ledger.after(after, limit)
		if len(ended) == 0 && wait > 0 {
			select {
			case <-more:
				continue
			case <-timer.C:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(policy.Connections{Open: g.ledger.active(), Ended: ended}) // an error means that the client has disconnected
		return
	}
}
