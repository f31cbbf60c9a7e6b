package github

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// Examine implements [forge.Examining]. GitHub lists the scopes of classic
// tokens only. The permissions of fine-grained and App tokens show only when a
// request fails.
func (f *Forge) Examine(ctx context.Context, r forge.Repo) (forge.Grant, error) {
	var v user
	header := http.Header{}
	err := f.wire.Do(ctx, forge.Ask{Repo: r, Path: []string{"user"}, Out: &v, Header: header})
	if fault.Of(err).Code == forge.CodeDenied { // an App's token has no user
		return forge.Grant{}, nil
	}
	if err != nil {
		return forge.Grant{}, err
	}
	g := forge.Grant{Login: forge.Line(v.Login, 100)}
	list, present := header["X-Oauth-Scopes"]
	if g.Told = present; present {
		scopes := strings.FieldsFunc(strings.Join(list, ","), func(r rune) bool { return r == ',' || r == ' ' })
		if !slices.Contains(scopes, "repo") {
			g.Lacks = []string{"repo"}
		}
	}
	return g, nil
}
