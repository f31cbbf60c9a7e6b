package stream

import (
	"aloft/internal/control/api/rest"
)

// Routes returns the operations of the package.
func (s *API) Routes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/agents/{id}/runs/{runId}/stream", ID: "streamRun", Summary: "Follow a run as server-sent events", Long: true,
			Header: []rest.Param{{Name: "Last-Event-ID", Kind: "string", Words: "resume after this event"}},
			Status: 200, Media: rest.EventStream, Handle: s.streamRun},
		{Method: "GET", Path: "/v1/agents/{id}/events", ID: "listAgentEvents", Summary: "Read an agent's journal as JSON lines", Long: true,
			Query: eventParams, Status: 200, Media: rest.JSONLines, Handle: s.listEvents},
	}
}
