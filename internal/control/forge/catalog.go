package forge

import (
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"aloft/internal/fault"
)

// A Listing is a [Forge] that can say which repositories a token sees.
type Listing interface {
	// Repositories returns the repositories that belong to the token's owner or that
	// it was given access to, without archived ones, in no particular order. The
	// token is that for of, which need not be a whole repository. With an error it
	// returns what it had read before.
	Repositories(ctx context.Context, of Repo) ([]Repo, error)
}

// How a [Catalog] asks its hosts.
const (
	listFresh  = 10 * time.Minute // how long a list is used before it is asked for again
	listRetry  = time.Minute      // how long to wait after a host has said nothing
	listWithin = 2 * time.Minute  // for a host to give its whole list
	listWait   = 10 * time.Second // for which a caller waits for hosts
)

// Source is one credential of the configuration.
type Source struct {
	URL string // what it is for: https://github.com/acme
	// List returns the repositories that it sees, like [Listing]; nil where nobody
	// can be asked.
	List func(ctx context.Context) ([]Repo, error)
}

// Catalog knows which repositories the credentials of a server see. It asks each
// host once in a while and keeps the answers in memory. Its methods are safe for
// concurrent use.
type Catalog struct {
	sources []*source
	log     *slog.Logger
	now     func() time.Time
	wait    time.Duration
}

type source struct {
	Source
	scheme, host string
	segments     []string // of the path

	mu     sync.Mutex
	repos  []string      // URLs
	until  time.Time     // when to ask again
	asking chan struct{} // closed when the answer is there; nil while nobody asks
}

// NewCatalog returns a catalog of the credentials. Of two that fit a repository
// equally well the first counts, as it does for git.
func NewCatalog(all []Source, log *slog.Logger) *Catalog {
	c := &Catalog{log: log, now: time.Now, wait: listWait}
	for _, s := range all {
		u, err := url.Parse(s.URL)
		if err != nil {
			continue // the gateway says what is wrong with it
		}
		any, err := ParseURL(u.Scheme + "://" + u.Host + "/owner/name")
		if err != nil {
			continue // likewise
		}
		path := strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
		c.sources = append(c.sources, &source{
			Source: s, scheme: strings.ToLower(u.Scheme), host: any.Host,
			segments: strings.FieldsFunc(path, func(r rune) bool { return r == '/' }),
		})
	}
	return c
}

// Repositories returns the URLs of the repositories that the credentials see,
// sorted. Each is seen by the credential with which git would fetch it. A host
// that does not answer is logged: what it said before counts, if anything.
func (c *Catalog) Repositories(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	var answers []<-chan struct{}
	for _, s := range c.sources {
		if asked := c.refresh(ctx, s); asked != nil {
			answers = append(answers, asked)
		}
	}
	for _, answer := range answers {
		select {
		case <-answer:
		case <-ctx.Done():
		}
	}
	var all []string
	for _, s := range c.sources {
		s.mu.Lock()
		all = append(all, s.repos...)
		s.mu.Unlock()
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// refresh asks for the source's list unless it is fresh, and returns what is
// closed when the answer is there; nil is at once. The answer outlives the caller,
// who may not wait for it.
func (c *Catalog) refresh(ctx context.Context, s *source) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.List == nil || s.asking == nil && c.now().Before(s.until) {
		return nil
	}
	if s.asking != nil {
		return s.asking
	}
	asking := make(chan struct{})
	s.asking = asking
	go func() {
		defer close(asking)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listWithin)
		defer cancel()
		c.ask(ctx, s)
	}()
	return asking
}

func (c *Catalog) ask(ctx context.Context, s *source) {
	found, err := s.List(ctx)
	var repos []string
	for _, r := range found {
		if r.valid() && c.closest(r) == s {
			repos = append(repos, (&url.URL{Scheme: s.scheme, Host: s.host, Path: "/" + r.Path}).String())
		}
	}
	wait := listFresh
	if err != nil {
		if len(found) == 0 {
			wait = listRetry
		}
		if asked, ok := RetryAfter(err); ok {
			wait = max(wait, asked)
		}
		c.log.Warn("a host's repositories cannot be listed", "url", s.URL, "code", fault.Of(err).Code, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || !Retryable(err) || s.repos == nil { // a token that is taken back sees nothing
		s.repos = repos
	}
	s.asking, s.until = nil, c.now().Add(wait)
}

// closest returns the credential that git would use for a repository, nil where
// there is none. A host may have another at another scheme.
func (c *Catalog) closest(r Repo) *source {
	var best *source
	path := strings.Split(r.Path, "/")
	for _, s := range c.sources {
		if s.host == r.Host && len(s.segments) <= len(path) && slices.Equal(s.segments, path[:len(s.segments)]) &&
			(best == nil || len(s.segments) > len(best.segments)) {
			best = s
		}
	}
	return best
}
