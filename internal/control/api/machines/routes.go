package machines

import (
	"slices"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
)

// Routes returns the operations of the package.
func (s *API) Routes() []rest.Route {
	return slices.Concat(s.fileRoutes(), []rest.Route{
		{Method: "GET", Path: "/v1/agents/{id}/ssh", ID: "openSSH", Summary: "Connect to the SSH server of an agent's machine, over a WebSocket", Long: true, Needs: account.Member,
			Status: 101, Media: "application/octet-stream", Handle: s.openSSH},
		{Method: "GET", Path: "/v1/agents/{id}/diff", ID: "getAgentDiff", Summary: "Show an agent's changes",
			Status: 200, Out: diffJSON{}, Handle: s.getDiff},
		{Method: "GET", Path: "/v1/agents/{id}/terminals", ID: "listAgentTerminals", Summary: "List an agent's shared terminals",
			Status: 200, Out: listTerminalsResponseJSON{}, Handle: s.listTerminals},
		{Method: "POST", Path: "/v1/agents/{id}/terminals", ID: "createAgentTerminal", Summary: "Create a shared terminal, or return the existing one with that name",
			In: createTerminalRequestJSON{}, Status: 201, Out: terminalJSON{}, Handle: s.createTerminal},
		{Method: "GET", Path: "/v1/agents/{id}/pty", ID: "openAgentPTY", Summary: "Run programs in an agent's machine over a WebSocket", Long: true, Needs: account.Member,
			Status: 101, Handle: s.openPTY},
		{Method: "GET", Path: "/v1/agents/{id}/desktop", ID: "getAgentDesktop", Summary: "Start the desktop of an agent's machine, if it has one", Needs: account.Member, Long: true,
			Status: 200, Out: desktopJSON{}, Handle: s.getDesktop},
		{Method: "GET", Path: "/v1/agents/{id}/desktop/vnc", ID: "openAgentDesktop", Summary: "Connect to the desktop of an agent's machine with VNC, over a WebSocket", Needs: account.Member, Long: true,
			Status: 101, Media: "application/octet-stream", Handle: s.openDesktop},
		{Method: "GET", Path: "/v1/agents/{id}/connections", ID: "listAgentConnections", Summary: "List the network connections of an agent's machine, allowed and refused",
			Query: []rest.Param{
				{Name: "after", Kind: "integer", Standard: 0, Words: "only connections that ended after the one with this seq"},
				{Name: "limit", Kind: "integer", Min: 1, Max: maxConnections, Standard: standardConnections, Words: "maximum number of closed connections"},
			},
			Status: 200, Out: connectionsJSON{}, Handle: s.listConnections},
		{Method: "GET", Path: "/v1/agents/{id}/ports", ID: "listPorts", Summary: "List the TCP ports on which programs in an agent's machine listen",
			Status: 200, Out: listPortsResponseJSON{}, Handle: s.listPorts},
		{Method: "GET", Path: "/v1/agents/{id}/ports/{port}", ID: "forwardPort", Summary: "Connect to a TCP port in an agent's machine, over a WebSocket", Long: true, Needs: account.Member,
			Status: 101, Media: "application/octet-stream", Handle: s.forwardPort},
		{Method: "POST", Path: "/v1/agents/{id}/ports/{port}/preview", ID: "createPreview", Summary: "Open a port in an agent's machine to a browser",
			Status: 201, Out: previewJSON{}, Handle: s.createPreview},
		{Method: "GET", Path: "/v1/agents/{id}/artifacts", ID: "listArtifacts", Summary: "List an agent's artifacts",
			Status: 200, Out: listArtifactsResponseJSON{}, Handle: s.listArtifacts},
		{Method: "GET", Path: "/v1/agents/{id}/artifacts/download", ID: "downloadArtifact", Summary: "Get a temporary download URL for an artifact",
			Query:  []rest.Param{{Name: "path", Kind: "string", Words: "path of the artifact, as in the list"}},
			Status: 200, Out: downloadArtifactResponseJSON{}, Plain: true, Handle: s.downloadArtifact},
		{Method: "GET", Path: "/v1/agents/{id}/artifacts/contents", ID: "getArtifactContents", Summary: "Download an artifact with a URL from downloadArtifact",
			Open: true, Long: true,
			Query: []rest.Param{
				{Name: "path", Kind: "string", Words: "path of the artifact"},
				{Name: "expires", Kind: "integer", Words: "when the URL expires, in seconds since 1970"},
				{Name: "signature", Kind: "string", Words: "signature of the URL"},
			},
			Status: 200, Media: "application/octet-stream", Handle: s.artifactContents},
	})
}
