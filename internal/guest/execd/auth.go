package execd

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"aloft/internal/fault"
)

// failuresPerSecond limits how many refused requests are answered with an
// explanation and logged. Any process in the machine can reach the port, so a
// refusal has to be cheap and must not flood the log. Requests with the right
// token are never limited.
const failuresPerSecond = 10

// tokenDigest checks a token's format and returns its digest. Comparing digests
// takes the same time for tokens of any length.
func tokenDigest(token string) ([32]byte, error) {
	if b, err := hex.DecodeString(token); err != nil || len(b) != 32 {
		return [32]byte{}, fault.Invalid("the token must be 64 hex digits").
			Hint("create one with: openssl rand -hex 32")
	}
	return sha256.Sum256([]byte(strings.ToLower(token))), nil
}

// authenticated returns a handler that forwards to next only requests with the token.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		digest := sha256.Sum256([]byte(strings.ToLower(token)))
		if want := s.token.Load(); ok && subtle.ConstantTimeCompare(digest[:], want[:]) == 1 {
			next.ServeHTTP(w, r)
			return
		}
		if !s.failures.take() {
			http.Error(w, "too many requests without the right token", http.StatusTooManyRequests)
			return
		}
		s.log.WarnContext(r.Context(), "refused a request without the right token",
			"path", r.URL.Path, "remote", r.RemoteAddr, "bearer", ok)
		w.Header().Set("WWW-Authenticate", `Bearer realm="exec-daemon"`)
		http.Error(w, "the request does not carry exec-daemon's token", http.StatusUnauthorized)
	})
}

// changeToken replaces the token with the one in the request's body. A machine
// that is restored for another agent gets a new token this way, and its running
// calls continue.
func (s *Server) changeToken(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 256))
	if err != nil {
		http.Error(w, "cannot read the new token from the body", http.StatusBadRequest)
		return
	}
	digest, err := tokenDigest(string(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.token.Store(&digest)
	w.WriteHeader(http.StatusNoContent)
}

// allowance permits a number of events in each period. It is safe for
// concurrent use.
type allowance struct {
	most   int
	period time.Duration

	mu    sync.Mutex
	since time.Time
	taken int
}

func newAllowance(most int, period time.Duration) *allowance {
	return &allowance{most: most, period: period}
}

func (a *allowance) take() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.since) >= a.period {
		a.since, a.taken = now, 0
	}
	a.taken++
	return a.taken <= a.most
}
