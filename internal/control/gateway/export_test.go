package gateway

import "aloft/internal/control/mirror"

// PathOf returns the path at which the gateway serves a repository.
func PathOf(repoURL string) (string, error) {
	r, err := mirror.ParseURL(repoURL)
	if err != nil {
		return "", err
	}
	return r.Path(), nil
}
