package api

import (
	"fmt"
	"net/http"
	"regexp"

	"aloft/internal/account"
	"aloft/internal/control/store"
)

// What is looked at for a list of repositories, which has no pages.
const (
	maxReposAgents = 1000 // the newest agents
	maxReposListed = 200
)

type repositoryJSON struct {
	_   struct{} `json:"-" additionalProperties:"true"`
	URL string   `json:"url" format:"uri"`
}

type listRepositoriesResponseJSON struct {
	_     struct{}         `json:"-" additionalProperties:"true"`
	Items []repositoryJSON `json:"items" nullable:"false"`
}

// listRepositories lists those that the caller's agents have worked on, the
// last used first. What a forge's credential could reach besides is not asked:
// a credential of the configuration is the server's, and not the caller's.
func (s *server) listRepositories(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	q := store.AgentQuery{UserID: who.UserID, IncludeArchived: true, Page: store.Page{Limit: maxLimit}}
	out := listRepositoriesResponseJSON{Items: []repositoryJSON{}}
	seen := map[string]bool{}
	for range maxReposAgents / maxLimit {
		agents, err := s.Agents.ListAgents(r.Context(), q)
		if err != nil {
			return fmt.Errorf("list agents: %w", err)
		}
		for _, a := range agents {
			for _, repo := range a.Repos {
				if u := asURL(repo.URL); !seen[u] && len(out.Items) < maxReposListed {
					seen[u] = true
					out.Items = append(out.Items, repositoryJSON{URL: u})
				}
			}
		}
		if len(agents) < q.Limit {
			break
		}
		last := agents[len(agents)-1]
		q.BeforeTime, q.BeforeID = last.CreatedAt, last.ID
	}
	return writeJSON(w, http.StatusOK, out)
}

var scpParts = regexp.MustCompile(`^([^/@]+@[^/:]+):/?(.*)$`)

// asURL writes git's short form of an ssh address as the URL that it stands for.
func asURL(raw string) string {
	if p := scpParts.FindStringSubmatch(raw); p != nil {
		return "ssh://" + p[1] + "/" + p[2]
	}
	return raw
}
