package gitlab

import (
	"context"
	"net/url"

	"aloft/internal/control/forge"
)

// Repositories implements [forge.Listing]. It lists the projects of which the
// token's user is a member.
func (f *Forge) Repositories(ctx context.Context, of forge.Repo) (all []forge.Repo, err error) {
	type project struct {
		Path string `json:"path_with_namespace"`
	}
	err = forge.AllPages(ctx, f.wire, forge.Ask{Repo: of, OfHost: true, Path: []string{"projects"}, Query: url.Values{
		"membership": {"true"}, "archived": {"false"}, "simple": {"true"}, "order_by": {"id"}, "sort": {"asc"}, "per_page": {perPage},
	}}, func(page []project) {
		for _, v := range page {
			all = append(all, forge.Repo{Host: of.Host, Path: v.Path})
		}
	})
	return all, err
}
