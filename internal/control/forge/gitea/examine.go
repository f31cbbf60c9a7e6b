package gitea

import (
	"context"
	"net/http"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// Examine implements [forge.Examining]. Gitea does not list a token's scopes,
// but checks them before anything else. So Examine sends requests that require
// a scope but are otherwise invalid. They change nothing, and the error shows
// whether the token has the scope.
func (f *Forge) Examine(ctx context.Context, r forge.Repo) (forge.Grant, error) {
	g := forge.Grant{Told: true}
	for _, need := range []struct {
		scope string
		path  []string
	}{{"write:repository", forge.RESTPath(r, "pulls")}, {"write:issue", forge.RESTPath(r, "issues", "0", "comments")}} {
		err := f.wire.Do(ctx, forge.Ask{Repo: r, Method: http.MethodPost, Path: need.path, In: struct{}{}})
		switch code := fault.Of(err).Code; {
		case code == forge.CodeDenied:
			g.Lacks = append(g.Lacks, need.scope)
		case code == forge.CodeUnauthorized || forge.Retryable(err):
			return forge.Grant{}, err
		}
	}
	var v user
	if err := f.wire.Do(ctx, forge.Ask{Repo: r, Path: []string{"user"}, Out: &v}); err == nil { // this request needs another scope
		g.Login = forge.Line(v.Login, 100)
	}
	return g, nil
}
