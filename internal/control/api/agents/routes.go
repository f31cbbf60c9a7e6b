package agents

import (
	"slices"

	"aloft/internal/control/api/rest"
)

// Routes returns the operations of the package.
func (s *API) Routes() []rest.Route {
	return slices.Concat(s.turnRoutes(), s.webhookRoutes(), []rest.Route{
		{Method: "POST", Path: "/v1/agents", ID: "createAgent", Summary: "Create an agent and start its first run",
			Header: []rest.Param{rest.IdempotencyParam, rest.TraceParam}, In: createAgentRequestJSON{}, Status: 201, Out: createAgentResponseJSON{}, Handle: s.createAgent},
		{Method: "GET", Path: "/v1/agents", ID: "listAgents", Summary: "List your agents, newest first",
			Query: append(slices.Clone(rest.PageParams), findParams...), Status: 200, Out: listAgentsResponseJSON{}, Handle: s.listAgents},
		{Method: "GET", Path: "/v1/agents/{id}", ID: "getAgent", Summary: "Show an agent", Status: 200, Out: agentJSON{}, Handle: s.getAgent},
		{Method: "PATCH", Path: "/v1/agents/{id}", ID: "updateAgent", Summary: "Rename an agent",
			In: updateAgentRequestJSON{}, Status: 200, Out: rest.IDResponseJSON{}, Handle: s.updateAgent},
		{Method: "DELETE", Path: "/v1/agents/{id}", ID: "deleteAgent", Summary: "Permanently delete an agent with all its data",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.deleteAgent},
		{Method: "POST", Path: "/v1/agents/{id}/archive", ID: "archiveAgent", Summary: "Archive an agent and stop its run",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.archiveAgent},
		{Method: "POST", Path: "/v1/agents/{id}/unarchive", ID: "unarchiveAgent", Summary: "Restore an archived agent",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.unarchiveAgent},
		{Method: "POST", Path: "/v1/agents/{id}/pause", ID: "pauseAgent", Summary: "Pause an agent before its next step",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.pauseAgent},
		{Method: "POST", Path: "/v1/agents/{id}/resume", ID: "resumeAgent", Summary: "Resume a paused agent",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.resumeAgent},
		{Method: "POST", Path: "/v1/agents/{id}/fork", ID: "forkAgent", Summary: "Create agents that continue from another agent's state", Long: true,
			Header: []rest.Param{rest.IdempotencyParam, rest.TraceParam}, In: forkRequestJSON{}, Status: 201, Out: forkResponseJSON{}, Handle: s.forkAgent},
		{Method: "POST", Path: "/v1/agents/{id}/runs", ID: "createRun", Summary: "Send an agent a follow-up prompt",
			Header: []rest.Param{rest.IdempotencyParam, rest.TraceParam}, In: createRunRequestJSON{}, Status: 201, Out: createRunResponseJSON{}, Handle: s.createRun},
		{Method: "GET", Path: "/v1/agents/{id}/runs", ID: "listRuns", Summary: "List an agent's runs, newest first",
			Query: rest.PageParams, Status: 200, Out: listRunsResponseJSON{}, Handle: s.listRuns},
		{Method: "GET", Path: "/v1/agents/{id}/runs/{runId}", ID: "getRun", Summary: "Show a run", Status: 200, Out: runJSON{}, Handle: s.getRun},
		{Method: "POST", Path: "/v1/agents/{id}/runs/{runId}/cancel", ID: "cancelRun", Summary: "Stop a run",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.cancelRun},
		{Method: "GET", Path: "/v1/agents/{id}/usage", ID: "getAgentUsage", Summary: "Show an agent's token usage",
			Query:  []rest.Param{{Name: "runId", Kind: "string", Words: "only this run"}},
			Status: 200, Out: agentUsageResponseJSON{}, Handle: s.getUsage},
		{Method: "GET", Path: "/v1/agents/{id}/journal", ID: "getAgentJournal", Summary: "Show a summary of an agent's journal, for clients that read it from its end",
			Status: 200, Out: journalJSON{}, Handle: s.getJournal},
		{Method: "GET", Path: "/v1/agents/{id}/context", ID: "getAgentContext", Summary: "Show which rules an agent's model was given",
			Status: 200, Out: contextJSON{}, Handle: s.getContext},
		{Method: "GET", Path: "/v1/agents/{id}/findings", ID: "getAgentFindings", Summary: "List what an agent has found in the change that it reviews",
			Status: 200, Out: findingsJSON{}, Handle: s.getFindings},
		{Method: "GET", Path: "/v1/repositories", ID: "listRepositories", Summary: "List the repositories that you may run agents on, the last used first",
			Status: 200, Out: listRepositoriesResponseJSON{}, Handle: s.listRepositories},
	})
}
