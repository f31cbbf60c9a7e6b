package api

import (
	"context"
	"fmt"
	"net/http"
	"regexp"

	"aloft/internal/account"
	"aloft/internal/control/store"
	"aloft/internal/secret"
)

// Bounds of a list of repositories, which has no pages.
const (
	maxReposAgents = 1000 // the newest agents whose repositories are looked at
	maxReposUsed   = 200  // of those
	maxReposListed = 10_000
	listsPerMinute = 10 // of one user
)

type repositoryJSON struct {
	_   struct{} `json:"-" additionalProperties:"true"`
	URL string   `json:"url" format:"uri"`
}

type listRepositoriesResponseJSON struct {
	_     struct{}         `json:"-" additionalProperties:"true"`
	Items []repositoryJSON `json:"items" nullable:"false"`
}

// listRepositories lists the repositories that the caller may run agents on: those
// that their agents have worked on, the last used first, and then what else the
// credentials of the configuration see. Who may run no agent is shown the first
// alone.
func (s *server) listRepositories(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if err := s.listing.take(w.Header(), who.UserID); err != nil {
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
	return writeJSON(w, http.StatusOK, out)
}

// usedRepositories returns the URLs of the repositories of the caller's newest
// agents, the last used first.
func (s *server) usedRepositories(ctx context.Context, who account.APIKey) (out []string, _ error) {
	q := store.AgentQuery{UserID: who.UserID, IncludeArchived: true, Page: store.Page{Limit: maxLimit}}
	seen := map[string]bool{}
	for range maxReposAgents / maxLimit {
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

// asURL writes git's short form of an ssh address as the URL that it stands for.
func asURL(raw string) string {
	if p := scpParts.FindStringSubmatch(raw); p != nil {
		return "ssh://" + p[1] + "/" + p[2]
	}
	return raw
}
