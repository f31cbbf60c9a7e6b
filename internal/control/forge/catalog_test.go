package forge

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/fault"
)

// A lister returns prepared answers one after another.
type lister struct {
	mu    sync.Mutex
	asked int
	repos []string
	err   error
	block bool
}

func (l *lister) list(ctx context.Context) (out []Repo, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.block {
		<-ctx.Done()
		return nil, fault.Unavailable("no answer").Named(CodeUnreachable).Because(ctx.Err())
	}
	for _, path := range l.repos {
		out = append(out, Repo{Host: "git.test", Path: path})
	}
	return out, l.err
}

func TestCatalog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acme := &lister{repos: []string{"acme/b", "acme/a", "other/seen-by-the-wrong-token"}}
		all := &lister{repos: []string{"acme/not-of-this-token", "team/x", "../etc", "a/%2e%2e", "widget/one"}}
		c := NewCatalog([]Source{
			{URL: "https://git.test/acme", List: acme.list}, {URL: "https://git.test", List: all.list},
			{URL: "https://git.test/widget/one.git"}, {URL: "nonsense", List: all.list},
		}, slog.New(slog.DiscardHandler))
		want := func(wants ...string) {
			t.Helper()
			if got := c.Repositories(t.Context()); !slices.Equal(got, wants) {
				t.Errorf("got  %q\nwant %q", got, wants)
			}
		}
		want("https://git.test/acme/a", "https://git.test/acme/b", "https://git.test/team/x")
		want("https://git.test/acme/a", "https://git.test/acme/b", "https://git.test/team/x")
		if acme.asked != 1 || all.asked != 1 {
			t.Errorf("asked %d and %d times", acme.asked, all.asked)
		}

		// If a host is down or asks for a delay, the cached list is used.
		time.Sleep(listFresh + 1)
		acme.repos, acme.err = nil, fault.Exhausted("slower").Named(CodeRateLimited).Because(limited{time.Hour})
		all.repos = []string{"team/y"}
		want("https://git.test/acme/a", "https://git.test/acme/b", "https://git.test/team/y")
		time.Sleep(time.Hour - time.Second)
		acme.err = nil
		want("https://git.test/acme/a", "https://git.test/acme/b", "https://git.test/team/y")
		if acme.asked != 2 {
			t.Errorf("a host that asked to wait was asked %d times", acme.asked)
		}

		// A revoked token can access nothing.
		time.Sleep(time.Second)
		acme.err = fault.Denied("bad credentials").Named(CodeUnauthorized)
		want("https://git.test/team/y")
	})
}

// TestCatalogOfAHostThatHangs checks that an unresponsive host delays callers
// only briefly, and gets only one request.
func TestCatalogOfAHostThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, good := &lister{block: true}, &lister{repos: []string{"team/x"}, err: errors.New("cut off after a page")}
		c := NewCatalog([]Source{{URL: "https://git.test/acme", List: slow.list}, {URL: "https://git.test/team", List: good.list}}, slog.New(slog.DiscardHandler))
		began := time.Now()
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				if got := strings.Join(c.Repositories(t.Context()), " "); got != "https://git.test/team/x" {
					t.Errorf("got %s", got)
				}
			})
		}
		callers.Wait()
		if took := time.Since(began); took != listWait {
			t.Errorf("waited %v", took)
		}
		time.Sleep(listWithin)
		synctest.Wait()
		if slow.asked != 1 {
			t.Errorf("asked %d times", slow.asked)
		}
	})
}
