package api

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"aloft/internal/account"
	"aloft/internal/control/identity"
	"aloft/internal/fault"
)

// A handler answers one request. If it returns an error before it has written
// anything, the error is sent in the API's shape.
type handler func(w http.ResponseWriter, r *http.Request, who account.APIKey) error

// A route is one operation of the API.
type route struct {
	method, path string
	id           string // operationId
	summary      string
	open         bool         // requires no key
	needs        account.Role // minimum role; if empty, see least
	long         bool         // has no time limit
	plain        bool         // never compressed
	query        []param
	header       []param
	in           any    // zero value of the body's type, or nil
	takes        string // media type of a body that is not JSON
	status       int    // status code on success
	out          any    // zero value of the reply's type, or nil if the reply is not JSON
	media        string
	handle       handler
}

// A param is a query parameter or a header.
type param struct {
	name, kind, words string // kind is integer, boolean or string
	min, max          int    // bounds of an integer
	standard          any    // default
}

// least returns the minimum role for the route. If the table does not say,
// viewers may use it if it only reads.
func (rt route) least() account.Role {
	switch {
	case rt.needs != "":
		return rt.needs
	case rt.method == http.MethodGet:
		return account.Viewer
	}
	return account.Member
}

// routes returns the table of all operations.
func (s *server) routes() []route {
	page := []param{
		{name: "limit", kind: "integer", min: 1, max: maxLimit, standard: standardLimit, words: "page size"},
		{name: "cursor", kind: "string", words: "nextCursor of the previous page"},
	}
	routes := slices.Concat(s.current(page), s.webhookRoutes(page), s.sessionRoutes(), s.memberRoutes(), s.keyRoutes(), s.settingsRoutes(), s.accessRoutes(), s.mcpRoutes(), s.environmentCheckRoutes(), s.snapshotRoutes(page), s.fileRoutes(), s.pullRequestRoutes(), s.inboundRoutes(page))
	return append(routes, s.legacy(routes, page)...)
}

// current returns the operations of /v1 and those about the server itself.
func (s *server) current(page []param) []route {
	return append(append(append(s.environmentRoutes(page), s.buildRoutes(page)...), append(s.setUpRoutes(), s.turnRoutes()...)...), []route{
		{method: "POST", path: "/v1/agents", id: "createAgent", summary: "Create an agent and start its first run",
			header: []param{idempotencyParam, traceParam}, in: createAgentRequestJSON{}, status: 201, out: createAgentResponseJSON{}, handle: s.createAgent},
		{method: "GET", path: "/v1/agents", id: "listAgents", summary: "List your agents, newest first",
			query: append(slices.Clone(page), findParams...), status: 200, out: listAgentsResponseJSON{}, handle: s.listAgents},
		{method: "GET", path: "/v1/agents/{id}", id: "getAgent", summary: "Show an agent", status: 200, out: agentJSON{}, handle: s.getAgent},
		{method: "DELETE", path: "/v1/agents/{id}", id: "deleteAgent", summary: "Permanently delete an agent with all its data",
			status: 200, out: idResponseJSON{}, handle: s.deleteAgent},
		{method: "POST", path: "/v1/agents/{id}/archive", id: "archiveAgent", summary: "Archive an agent and stop its run",
			status: 200, out: idResponseJSON{}, handle: s.archiveAgent},
		{method: "POST", path: "/v1/agents/{id}/unarchive", id: "unarchiveAgent", summary: "Restore an archived agent",
			status: 200, out: idResponseJSON{}, handle: s.unarchiveAgent},
		{method: "POST", path: "/v1/agents/{id}/pause", id: "pauseAgent", summary: "Pause an agent before its next step",
			status: 200, out: idResponseJSON{}, handle: s.pauseAgent},
		{method: "POST", path: "/v1/agents/{id}/resume", id: "resumeAgent", summary: "Resume a paused agent",
			status: 200, out: idResponseJSON{}, handle: s.resumeAgent},
		{method: "POST", path: "/v1/agents/{id}/fork", id: "forkAgent", summary: "Create agents that continue from another agent's state", long: true,
			header: []param{idempotencyParam, traceParam}, in: forkRequestJSON{}, status: 201, out: forkResponseJSON{}, handle: s.forkAgent},
		{method: "GET", path: "/v1/agents/{id}/ssh", id: "openSSH", summary: "Connect to the SSH server of an agent's machine, over a WebSocket", long: true, needs: account.Member,
			status: 101, media: "application/octet-stream", handle: s.openSSH},
		{method: "POST", path: "/v1/agents/{id}/runs", id: "createRun", summary: "Send an agent a follow-up prompt",
			header: []param{idempotencyParam, traceParam}, in: createRunRequestJSON{}, status: 201, out: createRunResponseJSON{}, handle: s.createRun},
		{method: "GET", path: "/v1/agents/{id}/runs", id: "listRuns", summary: "List an agent's runs, newest first",
			query: page, status: 200, out: listRunsResponseJSON{}, handle: s.listRuns},
		{method: "GET", path: "/v1/agents/{id}/runs/{runId}", id: "getRun", summary: "Show a run", status: 200, out: runJSON{}, handle: s.getRun},
		{method: "GET", path: "/v1/agents/{id}/runs/{runId}/stream", id: "streamRun", summary: "Follow a run as server-sent events", long: true,
			header: []param{{name: "Last-Event-ID", kind: "string", words: "resume after this event"}},
			status: 200, media: eventStream, handle: s.streamRun},
		{method: "POST", path: "/v1/agents/{id}/runs/{runId}/cancel", id: "cancelRun", summary: "Stop a run",
			status: 200, out: idResponseJSON{}, handle: s.cancelRun},
		{method: "GET", path: "/v1/agents/{id}/usage", id: "getAgentUsage", summary: "Show an agent's token usage",
			query:  []param{{name: "runId", kind: "string", words: "only this run"}},
			status: 200, out: agentUsageResponseJSON{}, handle: s.getUsage},
		{method: "GET", path: "/v1/agents/{id}/diff", id: "getAgentDiff", summary: "Show an agent's changes",
			status: 200, out: diffJSON{}, handle: s.getDiff},
		{method: "GET", path: "/v1/agents/{id}/terminals", id: "listAgentTerminals", summary: "List an agent's shared terminals",
			status: 200, out: listTerminalsResponseJSON{}, handle: s.listTerminals},
		{method: "POST", path: "/v1/agents/{id}/terminals", id: "createAgentTerminal", summary: "Create a shared terminal, or return the existing one with that name",
			in: createTerminalRequestJSON{}, status: 201, out: terminalJSON{}, handle: s.createTerminal},
		{method: "GET", path: "/v1/agents/{id}/pty", id: "openAgentPTY", summary: "Run programs in an agent's machine over a WebSocket", long: true, needs: account.Member,
			status: 101, handle: s.openPTY},
		{method: "GET", path: "/v1/agents/{id}/desktop", id: "getAgentDesktop", summary: "Start the desktop of an agent's machine, if it has one", needs: account.Member, long: true,
			status: 200, out: desktopJSON{}, handle: s.getDesktop},
		{method: "GET", path: "/v1/agents/{id}/desktop/vnc", id: "openAgentDesktop", summary: "Connect to the desktop of an agent's machine with VNC, over a WebSocket", needs: account.Member, long: true,
			status: 101, media: "application/octet-stream", handle: s.openDesktop},
		{method: "GET", path: "/v1/agents/{id}/events", id: "listAgentEvents", summary: "Read an agent's journal as JSON lines", long: true,
			query: eventParams, status: 200, media: jsonLines, handle: s.listEvents},
		{method: "GET", path: "/v1/agents/{id}/journal", id: "getAgentJournal", summary: "Show a summary of an agent's journal, for clients that read it from its end",
			status: 200, out: journalJSON{}, handle: s.getJournal},
		{method: "GET", path: "/v1/agents/{id}/context", id: "getAgentContext", summary: "Show which rules an agent's model was given",
			status: 200, out: contextJSON{}, handle: s.getContext},
		{method: "GET", path: "/v1/agents/{id}/connections", id: "listAgentConnections", summary: "List the network connections of an agent's machine, allowed and refused",
			query: []param{
				{name: "after", kind: "integer", standard: 0, words: "only connections that ended after the one with this seq"},
				{name: "limit", kind: "integer", min: 1, max: maxConnections, standard: standardConnections, words: "maximum number of closed connections"},
			},
			status: 200, out: connectionsJSON{}, handle: s.listConnections},
		{method: "GET", path: "/v1/agents/{id}/ports/{port}", id: "forwardPort", summary: "Connect to a TCP port in an agent's machine, over a WebSocket", long: true, needs: account.Member,
			status: 101, media: "application/octet-stream", handle: s.forwardPort},
		{method: "POST", path: "/v1/agents/{id}/ports/{port}/preview", id: "createPreview", summary: "Open a port in an agent's machine to a browser",
			status: 201, out: previewJSON{}, handle: s.createPreview},
		{method: "GET", path: "/v1/agents/{id}/artifacts", id: "listArtifacts", summary: "List an agent's artifacts",
			status: 200, out: listArtifactsResponseJSON{}, handle: s.listArtifacts},
		{method: "GET", path: "/v1/agents/{id}/artifacts/download", id: "downloadArtifact", summary: "Get a temporary download URL for an artifact",
			query:  []param{{name: "path", kind: "string", words: "path of the artifact, as in the list"}},
			status: 200, out: downloadArtifactResponseJSON{}, plain: true, handle: s.downloadArtifact},
		{method: "GET", path: "/v1/agents/{id}/artifacts/contents", id: "getArtifactContents", summary: "Download an artifact with a URL from downloadArtifact",
			open: true, long: true,
			query: []param{
				{name: "path", kind: "string", words: "path of the artifact"},
				{name: "expires", kind: "integer", words: "when the URL expires, in seconds since 1970"},
				{name: "signature", kind: "string", words: "signature of the URL"},
			},
			status: 200, media: "application/octet-stream", handle: s.artifactContents},
		{method: "GET", path: "/v1/approvals", id: "listApprovals", summary: "List requests waiting for your answer, oldest first",
			status: 200, out: listApprovalsResponseJSON{}, handle: s.listApprovals},
		{method: "GET", path: "/v1/agents/{id}/approvals", id: "listAgentApprovals", summary: "List an agent's pending requests",
			status: 200, out: listApprovalsResponseJSON{}, handle: s.listAgentApprovals},
		{method: "POST", path: "/v1/agents/{id}/approvals/{approvalId}", id: "answerApproval", summary: "Answer an agent's request; the first answer counts",
			header: []param{idempotencyParam}, in: answerRequestJSON{}, status: 200, out: idResponseJSON{}, handle: s.answerApproval},
		{method: "GET", path: "/v1/rules/{owner}/{name}", id: "getRule", summary: "Show a rule file, yours or the team's",
			status: 200, out: ruleJSON{}, handle: s.getRule},
		{method: "PUT", path: "/v1/rules/{owner}/{name}", id: "putRule", summary: "Set a rule file; the team's for admins only",
			in: putRuleRequestJSON{}, status: 200, out: ruleJSON{}, handle: s.putRule},
		{method: "GET", path: "/v1/repositories", id: "listRepositories", summary: "List the repositories that you may run agents on, the last used first",
			status: 200, out: listRepositoriesResponseJSON{}, handle: s.listRepositories},
		{method: "POST", path: "/v1/sub-tokens", id: "createSubToken", summary: "Create a one-hour token that acts for a user; admins only", needs: account.Admin,
			in: createSubTokenRequestJSON{}, status: 200, out: createSubTokenResponseJSON{}, handle: s.createSubToken},
		{method: "GET", path: "/v1/secrets", id: "listSecrets", summary: "List your secrets and the team's without values, newest first",
			query:  append(slices.Clone(page), param{name: "environmentId", kind: "string", words: "include those of this environment"}),
			status: 200, out: listSecretsResponseJSON{}, handle: s.listSecrets},
		{method: "PUT", path: "/v1/secrets/{name}", id: "putPersonalSecret", summary: "Set one of your secrets",
			in: putSecretRequestJSON{}, status: 200, out: secretJSON{}, handle: s.putSecret(ownSecrets)},
		{method: "DELETE", path: "/v1/secrets/{name}", id: "deletePersonalSecret", summary: "Delete one of your secrets",
			status: 200, out: idResponseJSON{}, handle: s.deleteSecret(ownSecrets)},
		{method: "PUT", path: "/v1/team/secrets/{name}", id: "putTeamSecret", summary: "Set a secret of the team; admins only", needs: account.Admin,
			in: putSecretRequestJSON{}, status: 200, out: secretJSON{}, handle: s.putSecret(teamSecrets)},
		{method: "DELETE", path: "/v1/team/secrets/{name}", id: "deleteTeamSecret", summary: "Delete a secret of the team; admins only", needs: account.Admin,
			status: 200, out: idResponseJSON{}, handle: s.deleteSecret(teamSecrets)},
		{method: "PUT", path: "/v1/environments/{id}/secrets/{name}", id: "putEnvironmentSecret", summary: "Set a secret of an environment",
			in: putSecretRequestJSON{}, status: 200, out: secretJSON{}, handle: s.putSecret(environmentSecrets)},
		{method: "DELETE", path: "/v1/environments/{id}/secrets/{name}", id: "deleteEnvironmentSecret", summary: "Delete a secret of an environment",
			status: 200, out: idResponseJSON{}, handle: s.deleteSecret(environmentSecrets)},
		{method: "POST", path: "/v1/team/secrets-rotation", id: "rotateSecrets", summary: "Re-encrypt every secret with new keys; admins only", long: true, needs: account.Admin,
			status: 200, out: rotatedJSON{}, handle: s.rotateSecrets},
		{method: "GET", path: "/v1/team/external-id", id: "getExternalID", summary: "Show the external ID for the team's AWS roles",
			status: 200, out: externalIDJSON{}, handle: s.getExternalID},
		{method: "GET", path: "/v1/me", id: "getApiKeyInfo", summary: "Show the user of this API key", status: 200, out: apiKeyInfoJSON{}, handle: s.getMe},
		{method: "GET", path: "/v1/models", id: "listModels", summary: "List the models that agents can use",
			status: 200, out: listModelsResponseJSON{}, handle: s.listModels},
		{method: "GET", path: "/metrics", id: "metrics", summary: "Read the server's metrics in Prometheus format; admins only", needs: account.Admin,
			status: 200, media: "text/plain", handle: s.metrics},
		{method: "GET", path: "/healthz", id: "health", summary: "Check whether the server is ready", open: true,
			status: 200, out: healthJSON{}, handle: s.health},
		{method: "GET", path: identity.DiscoveryPath, id: "openIDConfiguration", summary: "OpenID Connect discovery document of the issuer of machine tokens", open: true,
			status: 200, media: "application/json", handle: s.identityDocument},
		{method: "GET", path: identity.KeysPath, id: "openIDKeys", summary: "List the public keys that verify machine tokens", open: true,
			status: 200, media: "application/json", handle: s.identityDocument},
		{method: "GET", path: "/openapi.json", id: "openAPI", summary: "Describe this API", open: true, status: 200, media: "application/json", handle: s.serveOpenAPI},
		{method: "GET", path: helpPath, id: "getHelpOnErrors", summary: "Explain error codes", open: true, status: 200, media: "text/html", handle: s.serveHelp},
		{method: "GET", path: "/openapi.yaml", id: "openAPIYAML", summary: "Describe this API", open: true, status: 200, media: "application/yaml", handle: s.serveOpenAPI},
	}...)
}

// handler registers the table on a mux. For other methods, every path replies
// with the list of methods that it supports.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, rt := range s.routes() {
		mux.Handle(rt.method+" "+rt.path, s.compressed(rt, s.serve(rt)))
		allowed[rt.path] = append(allowed[rt.path], rt.method)
		if rt.method == http.MethodGet {
			allowed[rt.path] = append(allowed[rt.path], http.MethodHead)
		}
	}
	for path, methods := range allowed {
		mux.Handle(path, s.serve(route{path: path, open: true, handle: otherMethod(strings.Join(append(methods, http.MethodOptions), ", "))}))
	}
	unknown := s.serve(route{path: "unknown", open: true, handle: noSuchPath})
	mux.Handle("/", unknown)
	return tidied(mux, unknown)
}

// tidied cleans up common mistakes in paths: extra slashes at the beginning,
// from a base URL that ends in a slash, and a slash at the end of an API path.
// Other unclean paths are "not found": the mux would redirect them with a reply
// in HTML.
func tidied(next, unknown http.Handler) http.Handler {
	tidy := func(at string) string {
		at = "/" + strings.TrimLeft(at, "/")
		if strings.HasPrefix(at, "/v1/") || strings.HasPrefix(at, legacyPrefix) {
			at = strings.TrimSuffix(at, "/")
		}
		return at
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at := tidy(r.URL.Path); at != r.URL.Path {
			r = r.Clone(r.Context())
			if r.URL.Path = at; r.URL.RawPath != "" {
				r.URL.RawPath = tidy(r.URL.RawPath)
			}
		}
		if at := r.URL.EscapedPath(); path.Clean(at) != strings.TrimSuffix(at, "/") && at != "/" {
			unknown.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func otherMethod(allow string) handler {
	return func(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
		w.Header().Set("Allow", allow)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return fault.Invalid("%s is not allowed here; use %s", r.Method, allow).Named(codeMethod)
	}
}

func noSuchPath(_ http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	return fault.NotFound("nothing found at %s", quoted(r.URL.Path)).Hint("the API is described at /openapi.json")
}
