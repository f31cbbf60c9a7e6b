package agents

import (
	"context"
	"fmt"
	"net/http"
	"regexp"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/secret"
)

// Repositories lists the repositories that the server's configured credentials
// can access.
type Repositories interface {
	// Repositories returns the URLs of the repositories, sorted. It may be
	// slow, because it may query forges.
	Repositories(ctx context.Context) []string
}

// Limits of the list of repositories, which has no pages.
const (
	maxReposAgents = 1000 // number of newest agents whose repositories are listed
	maxReposUsed   = 200  // number of repositories taken from them
	maxReposListed = 10_000
	listsPerMinute = 10 // per user
)

type repositoryJSON struct {
	_   struct{} `json:"-" additionalProperties:"true"`
	URL string   `json:"url" format:"uri"`
}

type listRepositoriesResponseJSON struct {
	_     struct{}         `json:"-" additionalProperties:"true"`
	Items []repositoryJSON `json:"items" nullable:"false"`
}

// listRepositories lists the repositories on which the caller may run agents:
// first the repositories of the caller's agents, the most recently used first,
// then the other repositories that the server's credentials can access. A
// viewer, who may not run agents, gets only the first part.
func (s *API) listRepositories(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if err := s.Listing.Take(w.Header(), who.UserID); err != nil {
		return err
	}
	access, err := store.Access(r.Context(), s.Rules)
	if err != nil {
		return err
	}
	all, err := s.usedRepositories(r.Context(), who)
	if err != nil {
		return err
	}
	if s.Repositories != nil && who.Role.Covers(account.Member) {
		all = append(all, s.Repositories.Repositories(r.Context())...)
	}
	out := listRepositoriesResponseJSON{Items: []repositoryJSON{}}
	seen := map[string]bool{}
	for _, u := range all {
		repo := secret.Repo(u)
		if seen[repo] || len(out.Items) == maxReposListed || !access.Reaches(who.UserID, who.Role, repo) {
			continue
		}
		seen[repo] = true
		out.Items = append(out.Items, repositoryJSON{URL: u})
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

// usedRepositories returns the URLs of the repositories of the caller's newest
// agents, the most recently used first.
func (s *API) usedRepositories(ctx context.Context, who account.APIKey) (out []string, _ error) {
	q := store.AgentQuery{UserID: who.UserID, IncludeArchived: true, Page: store.Page{Limit: rest.MaxLimit}}
	seen := map[string]bool{}
	for range maxReposAgents / rest.MaxLimit {
		agents, err := s.Agents.ListAgents(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("list agents: %w", err)
		}
		for _, a := range agents {
			for _, repo := range a.Repos {
				if u := asURL(repo.URL); !seen[u] && len(out) < maxReposUsed {
					seen[u] = true
					out = append(out, u)
				}
			}
		}
		if len(agents) < q.Limit {
			break
		}
		last := agents[len(agents)-1]
		q.BeforeTime, q.BeforeID = last.CreatedAt, last.ID
	}
	return out, nil
}

var scpParts = regexp.MustCompile(`^([^/@]+@[^/:]+):/?(.*)$`)

// asURL converts git's short ssh form (user@host:path) to an ssh:// URL.
func asURL(raw string) string {
	if p := scpParts.FindStringSubmatch(raw); p != nil {
		return "ssh://" + p[1] + "/" + p[2]
	}
	return raw
}
