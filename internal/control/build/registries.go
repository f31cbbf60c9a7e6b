package build

import (
	"context"
	"slices"

	"aloft/internal/control/pullthrough"
	"aloft/internal/control/repourl"
	"aloft/internal/fault"
	"aloft/internal/policy"
)

// pulls returns for whom a build's machine pulls from registries: everybody who
// may use all of its repositories, because they all use the build.
func pulls(id string, repoURLs []string, network policy.Network) pullthrough.Grant {
	return pullthrough.Grant{
		ID:      id,
		Network: func() (policy.Network, error) { return network, nil },
		May: func(_ context.Context, url string) error {
			want, err := repourl.Parse(url)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(repoURLs, func(own string) bool {
				r, err := repourl.Parse(own)
				return err == nil && r.Key() == want.Key()
			}) {
				return nil
			}
			return fault.Denied("%s is not a repository of the environment", url)
		},
	}
}
