package environments

import (
	"slices"

	"aloft/internal/control/api/rest"
)

// Routes returns the operations of the package.
func (s *API) Routes() []rest.Route {
	return slices.Concat(s.environmentRoutes(), s.buildRoutes(), s.setUpRoutes(), s.environmentCheckRoutes(), s.snapshotRoutes())
}
