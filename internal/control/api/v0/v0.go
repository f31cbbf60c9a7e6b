// Package v0 is the older face of the API: the same agents as /v1, in the
// documents of /v0. Every operation is one of /v1, or several, with its words
// exchanged on the way in and out; who may do what, what is refused, and what a
// repeated request gets is decided there and nowhere else.
package v0

import (
	"net/http"
	"strings"

	"aloft/internal/agent"
)

// A Call is one request of /v0, and what may be done for it as its caller.
type Call interface {
	Request() *http.Request
	// Body decodes the request's JSON. Its error is a fault.
	Body(into any) error
	// V1 does an operation of /v1: in is its body, nil for none, and out what its
	// reply is decoded to. The path may have a query. The request's
	// Idempotency-Key is passed on. Its error is a fault that names fields of /v1.
	V1(method, path string, in, out any) error
	// Private reports whether a run of an agent that V1 has shown is in privacy mode.
	Private(agentID, runID string) (bool, error)
	// Events reads on in the journal of an agent that V1 has shown.
	Events(agentID string, after int64) ([]agent.Event, error)
}

// A Route is one operation of /v0.
type Route struct {
	Method, Path, ID, Summary string
	Paged                     bool   // takes limit and cursor
	Repeats                   bool   // takes an Idempotency-Key
	Query                     string // the one other parameter of the query, "" for none
	In, Out                   any    // the bodies; In nil for none
	Status                    int
	Handle                    func(Call) (any, error)
}

// Routes are all operations of /v0.
func Routes() []Route {
	return []Route{
		{Method: "POST", Path: "/v0/agents", ID: "v0CreateAgent", Summary: "Make an agent and start it", Repeats: true,
			In: CreateAgentRequest{}, Out: Agent{}, Status: http.StatusCreated, Handle: create},
		{Method: "GET", Path: "/v0/agents", ID: "v0ListAgents", Summary: "List your agents, newest first", Paged: true,
			Out: ListAgents{}, Status: http.StatusOK, Handle: list},
		{Method: "GET", Path: "/v0/agents/{id}", ID: "v0GetAgent", Summary: "Show an agent", Out: Agent{}, Status: http.StatusOK, Handle: get},
		{Method: "DELETE", Path: "/v0/agents/{id}", ID: "v0DeleteAgent", Summary: "Stop an agent and remove all that is kept of it",
			Out: ID{}, Status: http.StatusOK, Handle: remove},
		{Method: "POST", Path: "/v0/agents/{id}/followup", ID: "v0AddFollowup", Summary: "Give an agent its next prompt", Repeats: true,
			In: FollowupRequest{}, Out: ID{}, Status: http.StatusOK, Handle: followUp},
		{Method: "POST", Path: "/v0/agents/{id}/stop", ID: "v0StopAgent", Summary: "Stop what an agent is doing",
			Out: ID{}, Status: http.StatusOK, Handle: stop},
		{Method: "GET", Path: "/v0/agents/{id}/conversation", ID: "v0GetAgentConversation", Summary: "Show what an agent and its user have said",
			Out: Conversation{}, Status: http.StatusOK, Handle: conversation},
		{Method: "GET", Path: "/v0/agents/{id}/artifacts", ID: "v0ListArtifacts", Summary: "List the files of an agent that outlive its machine",
			Out: ListArtifacts{}, Status: http.StatusOK, Handle: artifacts},
		{Method: "GET", Path: "/v0/agents/{id}/artifacts/download", ID: "v0DownloadArtifact",
			Summary: "Get an address that an artifact can be downloaded from for a while", Query: "path",
			Out: Download{}, Status: http.StatusOK, Handle: download},
		{Method: "GET", Path: "/v0/me", ID: "v0GetMe", Summary: "Show whose key this is", Out: Me{}, Status: http.StatusOK, Handle: me},
		{Method: "GET", Path: "/v0/models", ID: "v0ListModels", Summary: "List the models that an agent may use",
			Out: ListModels{}, Status: http.StatusOK, Handle: models},
		{Method: "GET", Path: "/v0/repositories", ID: "v0ListRepositories", Summary: "List the repositories that you may run agents on",
			Out: ListRepositories{}, Status: http.StatusOK, Handle: repositories},
	}
}

// Error is how every error is written.
type Error struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Error   string   `json:"error" doc:"what went wrong, for programs"`
	Message string   `json:"message" doc:"what went wrong, for people"`
}

// fields are those of /v1 that have another name here.
var fields = map[string]string{
	"repos[0].url": "source.repository", "repos[0].startingRef": "source.ref", "repos[0].prUrl": "source.prUrl",
	"model.id": "model", "autoCreatePR": "target.autoCreatePr", "branchName": "target.branchName",
	"workOnCurrentBranch": "target.autoBranch", "openAsCursorGithubApp": "target.openAsCursorGithubApp",
}

// Field is what a field of /v1 is called here.
func Field(v1 string) string {
	if name, ok := fields[v1]; ok {
		return name
	}
	if image, ok := strings.CutSuffix(v1, ".mimeType"); ok { // which is made of the data
		return image + ".data"
	}
	return v1
}
