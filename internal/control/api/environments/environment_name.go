package environments

import (
	"context"
	"fmt"

	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// EnvironmentsNamed returns the user's and the team's environments of a name.
func (s *API) EnvironmentsNamed(ctx context.Context, userID int64, name string) (named []environment.Saved, err error) {
	for p := (store.Page{Limit: rest.Batch}); ; {
		list, err := s.Saved.ListEnvironments(ctx, userID, p)
		if err != nil {
			return nil, fmt.Errorf("list environments: %w", err)
		}
		for _, e := range list {
			if e.Name == name {
				named = append(named, e)
			}
			p.BeforeTime, p.BeforeID = e.CreatedAt, e.ID
		}
		if len(list) < p.Limit {
			return named, nil
		}
	}
}

// saveEnvironment saves an environment. If renamed is true, it rejects a name
// that another environment of the same owner has.
func (s *API) saveEnvironment(ctx context.Context, e environment.Saved, renamed bool) error {
	s.naming.Lock() // two concurrent renames would not see each other's name
	defer s.naming.Unlock()
	if renamed {
		named, err := s.EnvironmentsNamed(ctx, e.UserID, e.Name)
		if err != nil {
			return err
		}
		for _, other := range named {
			if other.ID != e.ID && other.Team == e.Team {
				return fault.Conflict("environment %s exists already", rest.Quoted(e.Name)).Named("environment_name_conflict").At("name")
			}
		}
	}
	return s.Saved.PutEnvironment(ctx, e)
}
