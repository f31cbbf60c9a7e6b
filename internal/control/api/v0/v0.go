// Package v0 is the older version of the API: the same agents as /v1, in the
// JSON of /v0. Every operation calls one or more operations of /v1, and
// converts the request and the reply. The operations of /v1 do the
// authorization, validation and idempotency.
package v0

import (
	"net/http"
	"strings"

	"aloft/internal/agent"
)

// A Call is one request of /v0. Its methods call operations of /v1 on behalf of
// the caller.
type Call interface {
	Request() *http.Request
	// Body decodes the request's JSON. Its error is a fault.
	Body(into any) error
	// V1 calls an operation of /v1. in is its body, or nil; the reply is
	// decoded into out. The path may have a query. The request's
	// Idempotency-Key is passed on. Its error is a fault that names fields of
	// /v1.
	V1(method, path string, in, out any) error
	// Private reports whether an agent's run, and whether the agent's first
	// run, is in privacy mode. The agent must come from V1.
	Private(agentID, runID string) (private, begun bool, err error)
	// Events returns an agent's journal events after a number. The agent must come
	// from V1.
	Events(agentID string, after int64) ([]agent.Event, error)
}

// A Route is one operation of /v0.
type Route struct {
	Method, Path, ID, Summary string
	Paged                     bool   // takes limit and cursor
	Repeats                   bool   // takes an Idempotency-Key
	Query                     string // the other query parameter, or ""
	In, Out                   any    // zero values of the types of the bodies; In may be nil
	Status                    int
	Handle                    func(Call) (any, error)
}

// Routes returns all operations of /v0.
func Routes() []Route {
	return []Route{
		{Method: "POST", Path: "/v0/agents", ID: "v0CreateAgent", Summary: "Create an agent and start it", Repeats: true,
			In: CreateAgentRequest{}, Out: Agent{}, Status: http.StatusCreated, Handle: create},
		{Method: "GET", Path: "/v0/agents", ID: "v0ListAgents", Summary: "List your agents, newest first", Paged: true,
			Out: ListAgents{}, Status: http.StatusOK, Handle: list},
		{Method: "GET", Path: "/v0/agents/{id}", ID: "v0GetAgent", Summary: "Show an agent", Out: Agent{}, Status: http.StatusOK, Handle: get},
		{Method: "DELETE", Path: "/v0/agents/{id}", ID: "v0DeleteAgent", Summary: "Permanently delete an agent with all its data",
			Out: ID{}, Status: http.StatusOK, Handle: remove},
		{Method: "POST", Path: "/v0/agents/{id}/followup", ID: "v0AddFollowup", Summary: "Send an agent a follow-up prompt", Repeats: true,
			In: FollowupRequest{}, Out: ID{}, Status: http.StatusOK, Handle: followUp},
		{Method: "POST", Path: "/v0/agents/{id}/stop", ID: "v0StopAgent", Summary: "Stop an agent's current run",
			Out: ID{}, Status: http.StatusOK, Handle: stop},
		{Method: "GET", Path: "/v0/agents/{id}/conversation", ID: "v0GetAgentConversation", Summary: "Show an agent's conversation",
			Out: Conversation{}, Status: http.StatusOK, Handle: conversation},
		{Method: "GET", Path: "/v0/agents/{id}/artifacts", ID: "v0ListArtifacts", Summary: "List an agent's artifacts",
			Out: ListArtifacts{}, Status: http.StatusOK, Handle: artifacts},
		{Method: "GET", Path: "/v0/agents/{id}/artifacts/download", ID: "v0DownloadArtifact",
			Summary: "Get a temporary download URL for an artifact", Query: "path",
			Out: Download{}, Status: http.StatusOK, Handle: download},
		{Method: "GET", Path: "/v0/me", ID: "v0GetMe", Summary: "Show the user of this API key", Out: Me{}, Status: http.StatusOK, Handle: me},
		{Method: "GET", Path: "/v0/models", ID: "v0ListModels", Summary: "List the models that agents can use",
			Out: ListModels{}, Status: http.StatusOK, Handle: models},
		{Method: "GET", Path: "/v0/repositories", ID: "v0ListRepositories", Summary: "List the repositories that you may run agents on",
			Out: ListRepositories{}, Status: http.StatusOK, Handle: repositories},
	}
}

// Error is the body of every error reply.
type Error struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Error   string   `json:"error" doc:"what went wrong, for programs"`
	Message string   `json:"message" doc:"what went wrong, for people"`
}

// fields maps field names of /v1 to those of /v0, where they differ.
var fields = map[string]string{
	"repos[0].url": "source.repository", "repos[0].startingRef": "source.ref", "repos[0].prUrl": "source.prUrl",
	"model.id": "model", "autoCreatePR": "target.autoCreatePr", "branchName": "target.branchName",
	"workOnCurrentBranch": "target.autoBranch", "openAsCursorGithubApp": "target.openAsCursorGithubApp",
}

// Field returns the name in /v0 of a field of /v1.
func Field(v1 string) string {
	if name, ok := fields[v1]; ok {
		return name
	}
	if image, ok := strings.CutSuffix(v1, ".mimeType"); ok { // /v1 gets the media type that was detected from the data
		return image + ".data"
	}
	return v1
}
