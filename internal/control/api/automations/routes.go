package automations

import (
	"slices"

	"aloft/internal/control/api/rest"
)

// Routes returns the operations of the package.
func (s *API) Routes() []rest.Route {
	return []rest.Route{
		{Method: "POST", Path: "/v1/automations", ID: "createAutomation", Summary: "Create an automation, which starts agents on a schedule, on events or by hand",
			In: createRequestJSON{}, Status: 201, Out: automationJSON{}, Handle: s.create},
		{Method: "GET", Path: "/v1/automations", ID: "listAutomations", Summary: "List automations, newest first",
			Query:  append(slices.Clone(rest.PageParams), rest.Param{Name: "all", Kind: "boolean", Words: "also those of other people; admins and viewers only"}),
			Status: 200, Out: listResponseJSON{}, Handle: s.list},
		{Method: "GET", Path: "/v1/automations/{automationId}", ID: "getAutomation", Summary: "Show an automation", Status: 200, Out: automationJSON{}, Handle: s.get},
		{Method: "PATCH", Path: "/v1/automations/{automationId}", ID: "updateAutomation", Summary: "Change, pause or activate an automation",
			In: updateRequestJSON{}, Status: 200, Out: automationJSON{}, Handle: s.update},
		{Method: "DELETE", Path: "/v1/automations/{automationId}", ID: "deleteAutomation", Summary: "Delete an automation with its history; its agents remain",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.remove},
		{Method: "POST", Path: "/v1/automations/{automationId}/try", ID: "tryAutomation", Summary: "Show what an automation would do by hand or for a received event, without starting it",
			In: tryRequestJSON{}, Status: 200, Out: trialJSON{}, Handle: s.try},
		{Method: "POST", Path: "/v1/automations/{automationId}/starts", ID: "startAutomation", Summary: "Start an automation now, or add a start to its backlog",
			Header: []rest.Param{rest.IdempotencyParam}, In: startRequestJSON{}, Status: 201, Out: startJSON{}, Handle: s.start},
		{Method: "GET", Path: "/v1/automations/{automationId}/starts", ID: "listAutomationStarts", Summary: "List the starts of an automation, newest first",
			Query: rest.PageParams, Status: 200, Out: listStartsResponseJSON{}, Handle: s.listStarts},
		{Method: "POST", Path: "/v1/automations/{automationId}/starts/{startId}/promote", ID: "promoteAutomationStart", Summary: "Start an entry of the backlog",
			Status: 200, Out: startJSON{}, Handle: s.promote},
		{Method: "POST", Path: "/v1/automations/{automationId}/starts/{startId}/cancel", ID: "cancelAutomationStart", Summary: "Cancel a start, and the run of its agent",
			Status: 200, Out: startJSON{}, Handle: s.cancel},
	}
}
