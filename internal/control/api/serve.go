package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/ledger"

	"github.com/google/uuid"
)

// A reply is an http.ResponseWriter that remembers the status.
type reply struct {
	http.ResponseWriter
	status int // 0 until the header is written
}

func (w *reply) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *reply) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] reach the connection.
func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// saneRequestID matches the client request ids that are used as they are. They
// appear in logs and in replies.
var saneRequestID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// serve wraps a route with the code that all routes share: the request id,
// headers, authentication, the timeout, error replies, and one log line. The
// log line names the route instead of the URL, because a query may contain
// secrets.
func (s *server) serve(rt rest.Route) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		start := time.Now()
		id := r.Header.Get("X-Request-Id")
		if !saneRequestID.MatchString(id) {
			id = uuid.NewString()
		}
		log := s.Logger.With("request", id, "method", r.Method, "route", rt.Path)
		w := &reply{ResponseWriter: rw}
		h := w.Header()
		h.Set("X-Request-Id", id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		defer func() {
			if p := recover(); p != nil {
				s.recovered(w, r, log, p)
			}
			level := slog.LevelInfo
			if r.Method == http.MethodGet && w.status < http.StatusBadRequest {
				level = slog.LevelDebug // clients send many read requests
			}
			log.Log(r.Context(), level, "request served", "status", w.status, "duration", time.Since(start))
		}()
		if !rt.Long {
			ctx, cancel := context.WithTimeout(r.Context(), rest.ReplyWithin)
			defer cancel()
			r = r.WithContext(ctx)
			defer readWithin(w, replyRead)()
		}
		var who account.APIKey
		if !rt.Open {
			var err error
			if who, err = s.Identify(r); err != nil {
				s.fail(w, r, log, err)
				return
			}
			log = log.With("user", who.UserID)
			if err = rest.MayUse(rt, who); err != nil {
				if audited(rt) {
					s.Audit(r, rt.ID, who.UserID, targetOf(rt, r), err)
				}
				s.fail(w, r, log, err)
				return
			}
			if limited(rt) {
				if err = s.limiter.Take(h, who.UserID); err != nil {
					s.fail(w, r, log, err)
					return
				}
			}
			end, err := s.progress.begin(r.Context(), rt, who.UserID)
			if err != nil {
				s.fail(w, r, log, err)
				return
			}
			defer end()
		}
		done, err := s.larges.bound(w, r, rt, who, s.config.Tally)
		if err != nil {
			s.fail(w, r, log, err)
			return
		}
		defer done()
		r, end := s.traced(r, rt)
		defer end()
		if rt.Method == http.MethodGet && rt.Long && !rt.Open {
			var left func()
			r, left = s.whileAllowed(r, rt)
			defer left()
			defer s.config.Tally.Hold(ledger.Holding{Kind: ledger.Stream, AgentID: agentOf(rt, r), UserID: who.UserID}, 0)()
		}
		again, err := s.replay(w, r, rt, who)
		if audited(rt) && !again {
			s.Audit(r, rt.ID, who.UserID, targetOf(rt, r), err)
		}
		if err != nil {
			s.fail(w, r, log, err)
		}
	})
}

// recovered replies after a handler panicked. If part of the reply was already
// sent, it cuts the connection, so that the client does not mistake the reply
// for complete.
func (s *server) recovered(w *reply, r *http.Request, log *slog.Logger, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	log.Error("handler panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	s.writeFault(w, errPanicked, isLegacy(r))
}

// agentOf returns the id of the agent in the request's path, or "".
func agentOf(rt rest.Route, r *http.Request) string {
	if strings.HasPrefix(rt.Path, "/v1/agents/{id}/") {
		return r.PathValue("id")
	}
	return ""
}

// limited reports whether requests for the route count towards the rate limit.
// Those for public routes and the metrics endpoint do not.
func limited(rt rest.Route) bool { return !rt.Open && rt.Path != "/metrics" }
