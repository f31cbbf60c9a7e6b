package gitea

import (
	"context"
	"net/http"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// Examine implements [forge.Examining]. Gitea tells no scopes, but looks at them
// before it looks at anything else: what is asked for here would be refused in
// any repository, since it says nothing.
func (f *Forge) Examine(ctx context.Context, r forge.Repo) (forge.Grant, error) {
	g := forge.Grant{Told: true}
	for _, need := range []struct {
		scope string
		path  []string
	}{{"write:repository", path(r, "pulls")}, {"write:issue", path(r, "issues", "0", "comments")}} {
		err := f.wire.Do(ctx, forge.Ask{Repo: r, Method: http.MethodPost, Path: need.path, In: struct{}{}})
		switch code := fault.Of(err).Code; {
		case code == forge.CodeDenied:
			g.Lacks = append(g.Lacks, need.scope)
		case code == forge.CodeUnauthorized || forge.Retryable(err):
			return forge.Grant{}, err
		}
	}
	var v user
	if err := f.wire.Do(ctx, forge.Ask{Repo: r, Path: []string{"user"}, Out: &v}); err == nil { // which takes another scope
		g.Login = forge.Line(v.Login, 100)
	}
	return g, nil
}
