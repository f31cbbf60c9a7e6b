package gateway

import "aloft/internal/control/repourl"

// PathOf returns the path at which the gateway serves a repository.
func PathOf(repoURL string) (string, error) {
	r, err := repourl.Parse(repoURL)
	if err != nil {
		return "", err
	}
	return r.Path(), nil
}
