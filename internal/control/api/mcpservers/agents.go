package mcpservers

import (
	"context"
	"net/http"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	controlmcp "aloft/internal/control/mcp"
	"aloft/internal/mcp"
)

// AgentMCP resolves the MCP servers of agents. Its methods are safe for
// concurrent use.
type AgentMCP interface {
	// Show returns an agent's servers, and those that are not available to it.
	Show(ctx context.Context, s *agent.State) ([]controlmcp.Shown, []mcp.LeftOut, error)
	// BeginSignIn starts a sign-in at one of the servers on behalf of the
	// agent's owner.
	BeginSignIn(ctx context.Context, s *agent.State, name string, back controlmcp.ReturnTo) (address, state string, err error)
}

type agentMCPServerJSON struct {
	_        struct{}      `json:"-" additionalProperties:"true"`
	Name     string        `json:"name"`
	Source   string        `json:"source" enum:"team,agent,user,project" doc:"where it is configured"`
	Type     string        `json:"type,omitempty" enum:"stdio,http,sse"`
	Command  string        `json:"command,omitempty"`
	URL      string        `json:"url,omitempty" doc:"without its query"`
	State    string        `json:"state" enum:"unknown,starting,ready,failed,needs_auth,left_out" doc:"left_out: not available to the agent"`
	Why      string        `json:"why,omitempty" doc:"why it cannot be used"`
	Tools    []mcpToolJSON `json:"tools,omitempty" nullable:"false"`
	SignedIn bool          `json:"signedIn,omitempty"`
	Over     bool          `json:"signInOver,omitempty" doc:"the owner's sign-in has expired and cannot be renewed"`
}

type listAgentMCPServersResponseJSON struct {
	_     struct{}             `json:"-" additionalProperties:"true"`
	Items []agentMCPServerJSON `json:"items" nullable:"false"`
}

func (s *API) listAgentMCPServers(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	out := listAgentMCPServersResponseJSON{Items: []agentMCPServerJSON{}}
	state, err := s.Folded(r.Context(), a.ID)
	if err != nil {
		return err
	}
	servers, left, err := s.AgentMCP.Show(r.Context(), state)
	if err != nil {
		return err
	}
	for _, one := range servers {
		item := agentMCPServerJSON{
			Name: one.Name, Source: string(one.Source), Type: string(one.Type), Command: one.Command, URL: withoutQuery(one.URL), State: "unknown",
			SignedIn: one.SignIn == controlmcp.SignedIn, Over: one.SignIn == controlmcp.SignInOver,
		}
		if l := one.Listing; l != nil {
			item.State, item.Why, item.Tools = string(l.State), l.Error, mcpToolsOf(*l)
		}
		out.Items = append(out.Items, item)
	}
	for _, l := range left {
		out.Items = append(out.Items, agentMCPServerJSON{Name: l.Name, Source: string(l.Source), State: "left_out", Why: l.Why})
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}
