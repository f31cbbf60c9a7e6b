package forgetest

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"aloft/internal/control/forge"
)

// RunServer tests an adapter against failures of the host: lost responses,
// concurrent requests by others, rate limits and refusals of every kind.
func RunServer(t *testing.T, begin func(t testing.TB) *Server, with func(t testing.TB, s *Server, token string) forge.Forge) {
	for name, test := range map[string]func(*testing.T, *Server, Host){
		"AnAnswerIsLost": dropReply, "SomebodyWasFirst": notFirst, "ALimitIsReached": limitReached, "TheHostIsDown": down, "Refused": refused,
		"TheHostDiesWhileItPosts": dieWhilePosting, "TheAnswerToAReviewIsLost": dropReviewReply, "APersonPreparesAReview": personReviews,
		"LinesOfAllKinds": allLines, "ReviewOfAnUnknownCommit": unknownCommit,
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			h := s.Host(t, with)
			h.Push(t, "b")
			test(t, s, h)
		})
	}
}

// dropReply makes the host open a pull request and drop the connection before it
// responds.
func dropReply(t *testing.T, s *Server, h Host) {
	s.Next(s.mux.ServeHTTP) // answer the search for an existing pull request
	s.Next(func(w http.ResponseWriter, r *http.Request) {
		s.mux.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	if _, err := h.Forge.Open(t.Context(), newPull(h.Repo, "b", "main")); !forge.Retryable(err) {
		t.Fatalf("the answer was lost: %v", err)
	}
	p, err := h.Forge.Open(t.Context(), newPull(h.Repo, "b", "main"))
	if all := s.Fake.PullRequests(h.Repo); err != nil || len(all) != 1 || p.Number != all[0].Number {
		t.Errorf("opened again: %+v, %v; there are %d", p, err, len(all))
	}
}

// notFirst has somebody else open the pull request after the adapter has
// searched for it and before the adapter creates it.
func notFirst(t *testing.T, s *Server, h Host) {
	open(t, h, "b")
	s.Next(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) })
	p, err := h.Forge.Open(t.Context(), newPull(h.Repo, "b", "main"))
	if all := s.Fake.PullRequests(h.Repo); err != nil || len(all) != 1 || p.Title != "Mend b" {
		t.Errorf("opened %+v, %v; there are %d", p, err, len(all))
	}
}

func limitReached(t *testing.T, s *Server, h Host) {
	s.Next(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "90")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	_, err := h.Forge.Open(t.Context(), newPull(h.Repo, "b", "main"))
	if wait, ok := forge.RetryAfter(err); !ok || wait != 90*time.Second || !forge.Retryable(err) {
		t.Errorf("to wait %v: %v", wait, err)
	}
	open(t, h, "b")
}

func down(t *testing.T, s *Server, h Host) {
	s.Next(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html>502</html>"))
	})
	if _, err := h.Forge.Get(t.Context(), h.Repo, 1); !forge.Retryable(err) {
		t.Errorf("while it is down: %v", err)
	}
}
