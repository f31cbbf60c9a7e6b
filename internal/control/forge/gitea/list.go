package gitea

import (
	"context"
	"net/url"

	"aloft/internal/control/forge"
)

// Repositories implements [forge.Listing]. It lists the repositories of the
// token's user, and those that the user collaborates on.
func (f *Forge) Repositories(ctx context.Context, of forge.Repo) (all []forge.Repo, err error) {
	err = forge.AllPages(ctx, f.wire, forge.Ask{Repo: of, OfHost: true, Path: []string{"user", "repos"}, Query: url.Values{"limit": {perPage}}},
		func(page []repository) {
			for _, v := range page {
				if !v.Archived {
					all = append(all, forge.Repo{Host: of.Host, Path: v.FullName})
				}
			}
		})
	return all, err
}
