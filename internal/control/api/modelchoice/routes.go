package modelchoice

import (
	"aloft/internal/control/api/rest"
)

// Routes returns the operations of the package.
func (s *API) Routes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/models", ID: "listModels", Summary: "List the models that agents can use",
			Status: 200, Out: listModelsResponseJSON{}, Handle: s.listModels},
	}
}
