package mcpservers

import (
	"aloft/internal/control/api/rest"
)

// Routes returns the operations of the package.
func (s *API) Routes() []rest.Route {
	return s.mcpRoutes()
}
