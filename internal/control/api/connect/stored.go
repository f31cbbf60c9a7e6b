package connect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"aloft/internal/secret"
)

// Owners of the stored values. The name of a value is the model's id or the
// host.
var (
	ofModels     = secret.Owner{Kind: secret.OfServer, ID: "models"}
	ofGitServers = secret.Owner{Kind: secret.OfServer, ID: "git_servers"}
)

// Load returns the stored connections, the oldest first.
func Load(ctx context.Context, values Values) (models []Model, servers []GitServer, err error) {
	models, err = load(ctx, values, ofModels, func(m *Model, id string) { m.ID = id })
	if err != nil {
		return nil, nil, err
	}
	servers, err = load(ctx, values, ofGitServers, func(g *GitServer, host string) { g.Host = host })
	return models, servers, err
}

func load[T any](ctx context.Context, values Values, owner secret.Owner, named func(*T, string)) ([]T, error) {
	kept, err := values.Kept(ctx, owner)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(kept, func(a, b secret.Opened) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Name, b.Name))
	})
	out := make([]T, len(kept))
	for i, k := range kept {
		if err := json.Unmarshal([]byte(k.Value), &out[i]); err != nil {
			return nil, fmt.Errorf("%s %s: %w", owner.ID, k.Name, err)
		}
		named(&out[i], k.Name)
	}
	return out, nil
}

func (s *API) keep(ctx context.Context, owner secret.Owner, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = s.Values.Keep(ctx, owner, name, string(text))
	return err
}
