package api

import (
	"fmt"
	"mime"
	"net/http"

	"aloft/internal/control/api/rest"

	"github.com/klauspost/compress/gzhttp"
)

// compressFrom is the size in bytes from which replies are compressed. A
// smaller reply fits in one packet anyway.
const compressFrom = 1 << 10

// compressible lists the media types whose replies are compressed.
var compressible = map[string]bool{"application/json": true, "application/schema+json": true, "application/yaml": true, rest.JSONLines: true}

// newCompressor returns the middleware that compresses replies by gzip for
// clients that accept it. If the handler flushes its reply, the client gets the
// data at once.
//
// BREACH: an attacker who can choose part of a reply, and see its length on the
// wire, can guess a secret in the same reply. For that, the attacker must make
// a victim's browser send requests, but requests from other sites carry no
// session (the cookie is SameSite=Strict). Besides, only replies to POST
// contain secrets, and these replies are never compressed. The only GET whose
// reply contains both a signature and a query parameter (downloadArtifact) is
// excluded by [route.plain]. The random length that is added to each reply
// makes guessing even slower.
func newCompressor() (func(http.Handler) http.HandlerFunc, error) {
	compress, err := gzhttp.NewWrapper(
		gzhttp.MinSize(compressFrom),
		gzhttp.EnableZstd(false), // zstd's window costs memory for each request
		gzhttp.RandomJitter(32, -1, false),
		gzhttp.ContentTypeFilter(func(header string) bool {
			media, _, err := mime.ParseMediaType(header)
			return err == nil && compressible[media]
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("api: compress: %w", err)
	}
	return compress, nil
}

// compresses reports whether replies of the route are compressed.
func compresses(rt rest.Route) bool {
	return rt.Method == http.MethodGet && !rt.Plain && rt.Status == http.StatusOK && (rt.Media == "" || compressible[rt.Media])
}

// compressed wraps the handler of a route so that replies are compressed. A
// reply that follows a journal is not compressed, because its events are small,
// and a compressor would hold memory for as long as the client follows.
func (s *server) compressed(rt rest.Route, h http.Handler) http.Handler {
	if !compresses(rt) {
		return h
	}
	whole := s.compress(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if follow, err := rest.Boolean(r.URL.Query(), "follow", false); err != nil || follow {
			h.ServeHTTP(w, r)
			return
		}
		whole(w, r)
	})
}
