package connect

import (
	"aloft/internal/account"
	"aloft/internal/control/api/rest"
)

// Routes returns the operations of the package.
func (s *API) Routes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/server", ID: "getServer", Summary: "Show the models and git servers that the server uses; admins only", Needs: account.Admin,
			Status: 200, Out: serverJSON{}, Handle: s.getServer},
		{Method: "GET", Path: "/v1/server/configuration", ID: "exportConfiguration", Summary: "Export the models and git servers as a configuration file that names environment variables instead of secrets; admins only", Needs: account.Admin,
			Status: 200, Media: "application/yaml", Handle: s.export},
		{Method: "PUT", Path: "/v1/server/models/{modelId}", ID: "connectModel", Summary: "Test a model, connect it, and reload the server's configuration; admins only", Long: true, Needs: account.Admin,
			In: connectModelRequestJSON{}, Status: 200, Out: connectedJSON{}, Handle: s.connectModel},
		{Method: "DELETE", Path: "/v1/server/models/{modelId}", ID: "disconnectModel", Summary: "Disconnect a model; admins only", Needs: account.Admin,
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.disconnect(ofModels, "modelId", "model")},
		{Method: "PUT", Path: "/v1/server/git-servers/{host}", ID: "connectGitServer", Summary: "Check a token of a git server, connect it, and reload the server's configuration; admins only", Long: true, Needs: account.Admin,
			In: connectGitServerRequestJSON{}, Status: 200, Out: connectedJSON{}, Handle: s.connectGitServer},
		{Method: "DELETE", Path: "/v1/server/git-servers/{host}", ID: "disconnectGitServer", Summary: "Disconnect a git server; admins only", Needs: account.Admin,
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.disconnect(ofGitServers, "host", "git server")},
	}
}
