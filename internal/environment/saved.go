package environment

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// Saved is an environment that the server keeps, for repositories without a
// file of their own.
type Saved struct {
	ID        string    `json:"id"`
	Team      bool      `json:"team"`   // the team's, and not the user's alone
	UserID    int64     `json:"userId"` // who made it
	Name      string    `json:"name"`
	Repos     []string  `json:"repos"` // URLs
	Text      string    `json:"text"`  // as environment.json has it
	VersionID string    `json:"versionId"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	// Script says that an agent has set install: it counts also beside a
	// repository's own file that has none.
	Script bool `json:"script,omitempty"`
}

// Version is what an environment said at some time.
type Version struct {
	ID        string    `json:"id"`
	Text      string    `json:"text"`
	UserID    int64     `json:"userId"` // who wrote it
	CreatedAt time.Time `json:"createdAt"`
}

// NewID returns a fresh id of a saved environment, env-<uuid>.
func NewID() string { return "env-" + uuid.NewString() }

// IsSavedID reports whether an id is of a saved environment, there or not, and
// not of what a repository's own file says.
func IsSavedID(id string) bool {
	rest, ok := strings.CutPrefix(id, "env-")
	_, err := uuid.Parse(rest)
	return ok && err == nil && len(rest) == 36
}

// NewVersionID returns a fresh id of a version, envv-<uuid>.
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

// repositoryName is what the forms of one repository's URL have in common.
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
