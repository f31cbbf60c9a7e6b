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

// A Listing is a [Forge] that can list the repositories a token can access.
type Listing interface {
	// Repositories returns the repositories that the token's owner owns or has
	// been given access to, without archived ones, in no particular order. repo
	// selects the token, and may be only the beginning of a repository's URL. On
	// error it returns the repositories read so far.
	Repositories(ctx context.Context, repo Repo) ([]Repo, error)
}

// Timing of a [Catalog]'s requests.
const (
	listFresh  = 10 * time.Minute // how long a list is cached
	listRetry  = time.Minute      // delay after a host has failed
	listWithin = 2 * time.Minute  // timeout for a host's whole list
	listWait   = 10 * time.Second // how long a caller waits for hosts
)

// Source is one configured credential.
type Source struct {
	URL string // prefix of the URLs to which it applies, such as https://github.com/acme
	// List returns the repositories that the credential can access, like
	// [Listing]; nil if the host cannot list them.
	List func(ctx context.Context) ([]Repo, error)
}

// Catalog lists the repositories that the server's credentials can access. It
// caches each host's list in memory. Its methods are safe for concurrent use.
type Catalog struct {
	sources []*source
	log     *slog.Logger
	now     func() time.Time
	wait    time.Duration
}

type source struct {
	Source
	scheme, host string
	segments     []string // segments of the path

	mu     sync.Mutex
	repos  []string      // URLs
	until  time.Time     // when the cache expires
	asking chan struct{} // closed when the running request ends; nil if there is none
}

// NewCatalog returns a catalog of the credentials. If two credentials match a
// repository equally well, the first one counts, as in git.
func NewCatalog(all []Source, log *slog.Logger) *Catalog {
	c := &Catalog{log: log, now: time.Now, wait: listWait}
	for _, s := range all {
		u, err := url.Parse(s.URL)
		if err != nil {
			continue // the gateway reports the invalid URL
		}
		any, err := ParseURL(u.Scheme + "://" + u.Host + "/owner/name")
		if err != nil {
			continue // the gateway reports the invalid URL
		}
		path := strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
		c.sources = append(c.sources, &source{
			Source: s, scheme: strings.ToLower(u.Scheme), host: any.Host,
			segments: strings.FieldsFunc(path, func(r rune) bool { return r == '/' }),
		})
	}
	return c
}

// Repositories returns the sorted URLs of the repositories that the credentials
// can access. Each repository is listed only by the credential that git would
// use for it. If a host fails, the failure is logged and its cached list is
// used.
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

// refresh starts to update the source's list unless the cache is fresh. The
// returned channel is closed when the list is available; nil means that it
// already is. The request continues if ctx ends.
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
		c.log.Warn("cannot list a host's repositories", "url", s.URL, "code", fault.Of(err).Code, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || !Retryable(err) || s.repos == nil { // a revoked token can access nothing
		s.repos = repos
	}
	s.asking, s.until = nil, c.now().Add(wait)
}

// closest returns the credential that git would use for a repository, or nil.
// One host may have different credentials per scheme.
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
