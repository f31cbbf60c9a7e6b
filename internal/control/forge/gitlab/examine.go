package gitlab

import (
	"context"
	"slices"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// Examine implements [forge.Examining]. GitLab describes access tokens, but not
// OAuth tokens.
func (f *Forge) Examine(ctx context.Context, r forge.Repo) (forge.Grant, error) {
	var self struct{ Scopes []string }
	err := f.wire.Do(ctx, forge.Ask{Repo: r, Path: []string{"personal_access_tokens", "self"}, Out: &self})
	if code := fault.Of(err).Code; err != nil && code != forge.CodeNotFound && code != forge.CodeRefused && code != forge.CodeDenied {
		return forge.Grant{}, err
	}
	g := forge.Grant{Told: err == nil}
	if g.Told && !slices.Contains(self.Scopes, "api") {
		g.Lacks = []string{"api"}
		return g, nil // the token may not read its own user
	}
	var v user
	err = f.wire.Do(ctx, forge.Ask{Repo: r, Path: []string{"user"}, Out: &v})
	g.Login = forge.Line(v.Username, 100)
	return g, err
}
