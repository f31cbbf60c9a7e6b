package github

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"aloft/internal/control/forge"
)

// Repositories implements [forge.Listing] for the token of a person. For an
// App, see [App.Repositories].
func (f *Forge) Repositories(ctx context.Context, of forge.Repo) ([]forge.Repo, error) {
	var all []forge.Repo
	err := forge.AllPages(ctx, f.wire, forge.Ask{Repo: of, OfHost: true, Path: []string{"user", "repos"}, Query: url.Values{
		"sort": {"full_name"}, "per_page": {perPage},
	}}, func(page []repository) { all = add(all, of.Host, page) })
	return all, err
}

// Repositories is like [forge.Listing]. It returns the App's repositories that
// belong to the owner of.Path, or to all owners if of.Path is "".
func (a *App) Repositories(ctx context.Context, of forge.Repo) ([]forge.Repo, error) {
	type at struct {
		ID        int64
		Account   user
		Suspended *string `json:"suspended_at"`
	}
	var installed []at
	err := forge.AllPages(ctx, a.wire, forge.Ask{Repo: of, OfHost: true, Path: []string{"app", "installations"}, Query: url.Values{"per_page": {perPage}}},
		func(page []at) { installed = append(installed, page...) })
	var all []forge.Repo
	owner, _, _ := strings.Cut(of.Path, "/")
	for _, v := range installed {
		if v.Suspended != nil || owner != "" && !strings.EqualFold(owner, v.Account.Login) {
			continue
		}
		found, wrong := a.listInstallation(ctx, forge.Repo{Host: of.Host, Path: v.Account.Login}, v.ID)
		all, err = append(all, found...), errors.Join(err, wrong)
	}
	return all, err
}

// listInstallation returns the repositories of one installation.
func (a *App) listInstallation(ctx context.Context, owner forge.Repo, id int64) (all []forge.Repo, err error) {
	i := a.installationOn(owner.Path)
	i.mu.Lock()
	if i.id != id { // the installation was unknown, or has a new id
		i.id, i.token = id, ""
	}
	token, err := a.renew(ctx, owner, i)
	i.mu.Unlock()
	if err != nil {
		return nil, err
	}
	o := a.opts
	o.Tokens = forge.Token(token)
	w, err := wire(o)
	if err != nil {
		return nil, err
	}
	type page struct{ Repositories []repository }
	err = forge.AllPages(ctx, w, forge.Ask{Repo: owner, OfHost: true, Path: []string{"installation", "repositories"}, Query: url.Values{"per_page": {perPage}}},
		func(p page) { all = add(all, owner.Host, p.Repositories) })
	return all, err
}

func add(to []forge.Repo, host string, page []repository) []forge.Repo {
	for _, v := range page {
		if !v.Archived {
			to = append(to, forge.Repo{Host: host, Path: v.FullName})
		}
	}
	return to
}
