package api

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"aloft/internal/account"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
)

// upstream lists error codes for failures of other servers. Runs store these
// codes; in replies each is replaced by the single code that clients of the API
// know.
var upstream = []string{"forge_unreachable", "repo_unreachable", "registry_unreachable", "lfs_unreachable"}

// codeOf returns the code for an error in a reply.
func codeOf(f *fault.Error) string {
	switch {
	case f.Kind == fault.KindInternal:
		return rest.CodeInternal
	case f.Kind == fault.KindUnavailable && slices.Contains(upstream, f.Code):
		return rest.CodeUpstream
	}
	return f.Code
}

// A helpCode is an error code that the help page explains.
type helpCode struct{ Code, Meaning, Remedy string }

// helpCodes are the codes that this server returns and clients check for.
var helpCodes = []helpCode{
	{"unauthorized", "The request has no API key, or the key is unknown, has expired or belongs to a disabled user.", "Send a valid key as Authorization: Bearer KEY. Create one in the dashboard under Account."},
	{"api_key_not_found", "You have no API key with that ID.", "List your keys with GET /v1/me/keys."},
	{rest.CodeRole, "Your role does not allow the request.", "Ask an admin or an owner of the team for another role."},
	{rest.CodeTeamAdmin, "Only admins of the team may do this.", "Ask an admin to do it. Your own environments, rules and MCP servers do not need an admin."},
	{"key_not_supported", "A sub-token acts for a user, but cannot change the user's own keys, password or passkeys, nor add or change members.", "Use the user's own API key or session."},
	{"service_account_required", "Sub-tokens can only be created with an admin's API key, not with a session or another sub-token.", "Create an API key with POST /v1/me/keys and use that."},
	{"team_membership_required", "The user is not in the team, or is disabled.", "Invite or enable the user with POST or PATCH /v1/members."},
	{rest.CodeOff, "The feature is not enabled on this server.", "Ask the operator; docs/reference/config.md says which key enables it."},
	{"not_implemented", "The request uses a part of the API that this version does not implement.", "Omit the field."},
	{"integration_not_connected", "The server has no credentials for the code host of the repository.", "Add the host's URL and a token to git.credentials in the configuration."},
	{"validation_error", "A field of the request is missing or has a wrong value. The message names the field.", "Correct the field. The API is described at /openapi.json."},
	{"missing_body", "The request has no body.", "Send a JSON object."},
	{"invalid_model", "The server has no model with that id.", "List the models with GET /v1/models."},
	{"invalid_branch_name", "Git does not accept the name for a branch.", "Use a name such as fix/login, without spaces, .. or a leading dash."},
	{agents.CodeNoRepository, "The request needs a repository.", "Name one in repos."},
	{"repository_access", "You have no access to that repository.", "Run an agent on it first, or ask an admin."},
	{"pr_resolution_failed", "The text is not the URL of a pull request.", "Copy the URL from the browser, such as https://github.com/owner/name/pull/7."},
	{"artifact_not_found", "The agent has no artifact at that path.", "List them with GET /v1/agents/{id}/artifacts."},
	{"agent_not_found", "There is no such agent, or you may not see it.", "List your agents with GET /v1/agents."},
	{"run_not_found", "The agent has no such run.", "List its runs with GET /v1/agents/{id}/runs."},
	{agents.CodeBusy, "The agent has a run that has not ended.", "Wait until it ends, cancel it, or queue the prompt with POST /v1/agents/{id}/queue."},
	{"agent_archived", "The agent is archived.", "Unarchive it with POST /v1/agents/{id}/unarchive."},
	{"agent_id_conflict", "An agent with the request's agentId already exists.", "Generate another id, or use the existing agent."},
	{"run_not_cancellable", "The run has ended.", "There is nothing to cancel."},
	{"rate_limit_exceeded", "The user, or the client address of sign-ins, has made too many requests, or too many at a time.", "Wait for the number of seconds in Retry-After. Without that header, wait until other requests have ended."},
	{"usage_limit_exceeded", "A limit of the server is reached.", "Delete what you do not use."},
	{rest.CodeStream, "The events of the run cannot be read now.", "Try again; the stream continues after Last-Event-ID."},
	{"invalid_last_event_id", "Last-Event-ID is not an event of this run.", "Omit the header to start at the run's first event."},
	{rest.CodeUpstream, "A code host, registry or other server does not answer.", "Try again later."},
	{rest.CodeInternal, "The server failed to handle the request.", "Send the operator the reply's X-Request-Id; the server's log has the cause."},
	{agents.CodeNoEnvironment, "There is no environment with that id or name that you may use, or several have the name.", "List them with GET /v1/environments, and give each its own name."},
	{"environment_name_conflict", "You or the team already have an environment with that name.", "Choose another name, or rename the other environment."},
	{rest.CodeNoBuild, "There is no such build, you may not see it, or none has succeeded yet.", "List the builds of the environment."},
	{"secret_not_found", "The owner has no secret with that name.", "List them with GET /v1/secrets."},
	{"secret_name_conflict", "There is a secret whose name differs only in case.", "Use that name, or delete that secret first."},
	{"secret_limit_reached", "The owner has reached the maximum number of secrets.", "Delete secrets that you do not use."},
	{"secret_scope_conflict", "The secret names a repository that its environment does not include.", "Omit repos, or add the repository to the environment."},
}

// unusedCodes are codes of the public API for cases that cannot occur on this
// server.
var unusedCodes = map[string]string{
	"plan_required":         "there are no paid plans",
	"client_cancelled":      "nobody is left to read the reply of a request that its client has cancelled",
	"stream_expired":        "a run's events are kept as long as its agent; afterwards the reply is agent_not_found",
	"secret_name_ambiguous": "the path of a secret names its owner, and an owner has a name once, whatever its case",
	"user_required":         "every key belongs to a user",
}

// helpPath is where the help page is served.
const helpPath = "/help/errors"

// helpURL returns the address of the help page's entry for a code, or "" if
// there is none.
func (s *server) helpURL(code string) string {
	if !slices.ContainsFunc(helpCodes, func(h helpCode) bool { return h.Code == code }) {
		return ""
	}
	return strings.TrimSuffix(s.PublicURL(), "/") + helpPath + "#" + code
}

//go:embed help.html
var helpText string

var helpPage = template.Must(template.New("help").Parse(helpText))

func (s *server) serveHelp(w http.ResponseWriter, _ *http.Request, _ account.APIKey) error {
	var page bytes.Buffer
	if err := helpPage.Execute(&page, helpCodes); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	_, _ = w.Write(page.Bytes())
	return nil
}
