package environment

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// Saved is an environment stored on the server, for repositories without their
// own file.
type Saved struct {
	ID        string    `json:"id"`
	Team      bool      `json:"team"`   // belongs to the team, not only to the user
	UserID    int64     `json:"userId"` // its author
	Name      string    `json:"name"`
	Repos     []string  `json:"repos"` // URLs of the repositories
	Text      string    `json:"text"`  // in the format of environment.json
	VersionID string    `json:"versionId"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	// Script means that an agent has set install. Then install also applies to a repository
	// whose own file has no install.
	Script bool `json:"script,omitempty"`
}

// Version is a previous content of an environment.
type Version struct {
	ID        string    `json:"id"`
	Text      string    `json:"text"`
	UserID    int64     `json:"userId"` // its author
	CreatedAt time.Time `json:"createdAt"`
}

// NewID returns a new id of a saved environment, env-<uuid>.
func NewID() string { return "env-" + uuid.NewString() }

// IsSavedID reports whether id identifies a saved environment, rather than a
// repository's own file.
func IsSavedID(id string) bool {
	rest, ok := strings.CutPrefix(id, "env-")
	_, err := uuid.Parse(rest)
	return ok && err == nil && len(rest) == 36
}

// NewVersionID returns a new id of a version, envv-<uuid>.
func NewVersionID() string { return "envv-" + uuid.NewString() }

// For reports whether the environment is for a repository.
func (s Saved) For(repoURL string) bool {
	for _, url := range s.Repos {
		if repositoryName(url) == repositoryName(repoURL) {
			return true
		}
	}
	return false
}

// repositoryName returns a name that all forms of a repository's URL share.
func repositoryName(url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		url = rest
	} else if i := strings.IndexByte(url, ':'); i >= 0 && !strings.Contains(url[:i], "/") {
		url = url[:i] + "/" + url[i+1:] // git@host:path
	}
	host, path, _ := strings.Cut(url, "/")
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	return strings.ToLower(host) + "/" + strings.TrimSuffix(strings.Trim(path, "/"), ".git")
}
