package environments

import (
	"context"

	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// saveEnvironment saves an environment. If renamed is true, it rejects a name
// that another environment of the same owner has.
func (s *API) saveEnvironment(ctx context.Context, e environment.Saved, renamed bool) error {
	s.naming.Lock() // two concurrent renames would not see each other's name
	defer s.naming.Unlock()
	if renamed {
		named, err := store.EnvironmentsNamed(ctx, s.Saved, e.UserID, e.Name)
		if err != nil {
			return err
		}
		for _, other := range named {
			if other.ID != e.ID && other.Team == e.Team {
				return fault.Conflict("environment %s already exists", fault.Quoted(e.Name)).Named("environment_name_conflict").At("name")
			}
		}
	}
	return s.Saved.PutEnvironment(ctx, e)
}
