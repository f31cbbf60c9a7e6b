package mcpservers

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	controlmcp "aloft/internal/control/mcp"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/secret"
)

type mcpAuthJSON struct {
	_            struct{} `json:"-" additionalProperties:"false"`
	ClientID     string   `json:"CLIENT_ID" minLength:"1"`
	ClientSecret string   `json:"CLIENT_SECRET,omitempty"`
	Scopes       []string `json:"scopes,omitempty" nullable:"false"`
}

// MCPServerInJSON is an MCP server in a request. Unknown fields are rejected.
type MCPServerInJSON struct {
	_ struct{} `json:"-" additionalProperties:"false"`
	mcpNamedJSON
}

// mcpNamedJSON is an MCP server's definition: a program in the machine, or a
// remote server.
type mcpNamedJSON struct {
	Name    string            `json:"name" minLength:"1" maxLength:"64"`
	Type    string            `json:"type,omitempty" enum:"stdio,http,sse" doc:"default derived from command or url"`
	Command string            `json:"command,omitempty" doc:"program that runs in the machine"`
	Args    []string          `json:"args,omitempty" nullable:"false"`
	Env     map[string]string `json:"env,omitempty" doc:"stored encrypted, and never shown again"`
	URL     string            `json:"url,omitempty" format:"uri" doc:"address of a remote server, which Aloft itself connects to"`
	Headers map[string]string `json:"headers,omitempty" doc:"stored encrypted, never shown again, and never sent to a machine"`
	Auth    *mcpAuthJSON      `json:"auth,omitempty" doc:"OAuth client for Aloft, if the server's provider does not support dynamic client registration"`
}

func (in mcpNamedJSON) server() mcp.Server {
	s := mcp.Server{Name: in.Name, Type: mcp.Transport(in.Type), Command: in.Command, Args: in.Args, Env: in.Env, URL: in.URL, Headers: in.Headers}
	if in.Auth != nil {
		s.Auth = &mcp.Auth{ClientID: in.Auth.ClientID, ClientSecret: in.Auth.ClientSecret, Scopes: in.Auth.Scopes}
	}
	return s
}

type addMCPServerRequestJSON struct {
	_     struct{} `json:"-" additionalProperties:"true"`
	Owner string   `json:"owner,omitempty" enum:"personal,team" default:"personal" doc:"team is for admins"`
	mcpNamedJSON
}

type mcpClientJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	ClientID string   `json:"CLIENT_ID"`
	Secret   bool     `json:"secret" doc:"whether it has a CLIENT_SECRET"`
	Scopes   []string `json:"scopes" nullable:"false"`
}

type mcpServerJSON struct {
	_         struct{}       `json:"-" additionalProperties:"true"`
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Owner     string         `json:"owner" enum:"personal,team"`
	Type      string         `json:"type" enum:"stdio,http,sse"`
	Command   string         `json:"command,omitempty"`
	Args      []string       `json:"args,omitempty" nullable:"false"`
	Env       []string       `json:"env,omitempty" nullable:"false" doc:"the names of its variables"`
	URL       string         `json:"url,omitempty" doc:"without its query"`
	Headers   []string       `json:"headers,omitempty" nullable:"false" doc:"the names of its headers"`
	Auth      *mcpClientJSON `json:"auth,omitempty"`
	SignedIn  bool           `json:"signedIn" doc:"you have signed in to it"`
	Over      bool           `json:"signInOver,omitempty" doc:"your sign-in has expired and cannot be renewed: sign in again"`
	CreatedAt time.Time      `json:"createdAt"`
}

type listMCPServersResponseJSON struct {
	_     struct{}        `json:"-" additionalProperties:"true"`
	Items []mcpServerJSON `json:"items" nullable:"false"`
}

type mcpToolJSON struct {
	_           struct{} `json:"-" additionalProperties:"true"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty" doc:"from the server"`
}

type testMCPServerResponseJSON struct {
	_      struct{}             `json:"-" additionalProperties:"true"`
	State  string               `json:"state" enum:"ready,failed,needs_auth"`
	Tools  []mcpToolJSON        `json:"tools" nullable:"false"`
	Error  *rest.ErrorInnerJSON `json:"error,omitempty" doc:"why it cannot be used"`
	TookMS int64                `json:"tookMs" minimum:"0"`
}

func (s *API) mcpRoutes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/mcp-servers", ID: "listMcpServers", Summary: "List your MCP servers and the team's",
			Status: 200, Out: listMCPServersResponseJSON{}, Handle: s.listMCPServers},
		{Method: "POST", Path: "/v1/mcp-servers", ID: "addMcpServer", Summary: "Add an MCP server for your agents or all of the team's",
			In: addMCPServerRequestJSON{}, Status: 201, Out: mcpServerJSON{}, Handle: s.addMCPServer},
		{Method: "DELETE", Path: "/v1/mcp-servers/{serverId}", ID: "removeMcpServer", Summary: "Remove an MCP server",
			Status: 200, Out: rest.IDResponseJSON{}, Handle: s.removeMCPServer},
		{Method: "POST", Path: "/v1/mcp-servers/{serverId}/test", ID: "testMcpServer", Summary: "Connect to a remote MCP server and list its tools", Long: true,
			Status: 200, Out: testMCPServerResponseJSON{}, Handle: s.testMCPServer},
		{Method: "POST", Path: "/v1/mcp-servers/{serverId}/sign-in", ID: "beginMcpSignIn", Summary: "Start signing in to an MCP server in this browser",
			Status: 200, Out: beginMCPSignInResponseJSON{}, Handle: s.beginMCPSignIn},
		{Method: "DELETE", Path: "/v1/mcp-servers/{serverId}/sign-in", ID: "endMcpSignIn", Summary: "Sign out of an MCP server",
			Status: 204, Handle: s.endMCPSignIn},
		{Method: "GET", Path: controlmcp.CallbackPath, ID: "mcpSignInCallback", Summary: "Finish signing in to an MCP server (redirect URI)", Open: true,
			Query: []rest.Param{
				{Name: "code", Kind: "string", Words: "from the provider"}, {Name: "state", Kind: "string", Words: "from the start of the sign-in"},
				{Name: "iss", Kind: "string", Words: "issuer of the provider"},
			},
			Status: 302, Handle: s.mcpSignInCallback},
		{Method: "GET", Path: "/v1/agents/{id}/mcp-servers", ID: "listAgentMcpServers", Summary: "List an agent's MCP servers, and why it cannot use some",
			Status: 200, Out: listAgentMCPServersResponseJSON{}, Handle: s.listAgentMCPServers},
		{Method: "POST", Path: "/v1/agents/{id}/mcp-servers/{name}/sign-in", ID: "beginAgentMcpSignIn", Summary: "Start signing in, in this browser, to an MCP server for your agent",
			In: beginMCPSignInRequestJSON{}, Status: 200, Out: beginMCPSignInResponseJSON{}, Handle: s.beginAgentMCPSignIn},
	}
}

func (s *API) listMCPServers(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	all, err := s.MCP.List(r.Context(), who.UserID)
	if err != nil {
		return err
	}
	out := listMCPServersResponseJSON{Items: []mcpServerJSON{}}
	for _, k := range all {
		item, err := s.mcpServerOf(r.Context(), k, who)
		if err != nil {
			return err
		}
		out.Items = append(out.Items, item)
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *API) mcpServerOf(ctx context.Context, k controlmcp.StoredServer, who account.APIKey) (mcpServerJSON, error) {
	signIn, err := s.MCP.SignIn(ctx, k.Server, controlmcp.User{ID: who.UserID})
	out := mcpServerJSON{
		ID: k.ID, Name: k.Name, Owner: string(secret.OfPerson), Type: string(k.Type), Command: k.Command, Args: k.Args,
		Env: slices.Sorted(maps.Keys(k.Env)), URL: withoutQuery(k.URL), Headers: slices.Sorted(maps.Keys(k.Headers)), CreatedAt: rest.Stamp(k.CreatedAt),
		SignedIn: signIn == controlmcp.SignedIn, Over: signIn == controlmcp.SignInOver,
	}
	if k.Team() {
		out.Owner = string(secret.OfTeam)
	}
	if k.Auth != nil {
		out.Auth = &mcpClientJSON{ClientID: k.Auth.ClientID, Secret: k.Auth.ClientSecret != "", Scopes: append([]string{}, k.Auth.Scopes...)}
	}
	return out, err
}

// withoutQuery returns a URL without its query, which may hold a secret.
func withoutQuery(raw string) string {
	before, _, cut := strings.Cut(raw, "?")
	if cut {
		return before + "?…"
	}
	return before
}

func (s *API) addMCPServer(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	var in addMCPServerRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	switch in.Owner {
	case "", string(secret.OfPerson):
	case string(secret.OfTeam):
		if err := mayTeam(who); err != nil {
			return err
		}
	default:
		return fault.Invalid("must be personal or team").At("owner")
	}
	k, err := s.MCP.Add(r.Context(), who.UserID, in.Owner == string(secret.OfTeam), in.server())
	if err != nil {
		return err
	}
	out, err := s.mcpServerOf(r.Context(), k, who)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, out)
}

func mayTeam(who account.APIKey) error {
	if !who.Role.Covers(account.Admin) {
		return fault.Denied("only admins may change the team's MCP servers").Named(rest.CodeTeamAdmin).Hint("add it for yourself, or ask an admin")
	}
	return nil
}

// mcpServer returns the server in the request's path, if the caller may see it.
func (s *API) mcpServer(r *http.Request, who account.APIKey) (controlmcp.StoredServer, error) {
	return s.MCP.Find(r.Context(), who.UserID, r.PathValue("serverId"))
}

func (s *API) removeMCPServer(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	k, err := s.mcpServer(r, who)
	if err != nil {
		return err
	}
	if k.Team() {
		if err := mayTeam(who); err != nil {
			return err
		}
	}
	if err := s.MCP.Remove(r.Context(), k); err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: k.ID})
}

func (s *API) testMCPServer(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	k, err := s.mcpServer(r, who)
	if err != nil {
		return err
	}
	began := time.Now()
	l, err := s.MCP.Test(r.Context(), k.Server, controlmcp.User{ID: who.UserID})
	out := testMCPServerResponseJSON{State: string(mcp.Ready), Tools: []mcpToolJSON{}, TookMS: time.Since(began).Milliseconds()}
	if err != nil {
		f := fault.Of(err)
		switch f.Code {
		case controlmcp.CodeSignIn:
			out.State = string(mcp.NeedsAuth)
		case controlmcp.CodeFailed, controlmcp.CodeNoToken:
			out.State = string(mcp.Failed)
		default:
			return err
		}
		out.Error = &rest.ErrorInnerJSON{Code: f.Code, Message: f.Message}
	}
	out.Tools = mcpToolsOf(l)
	return rest.WriteJSON(w, http.StatusOK, out)
}

func mcpToolsOf(l mcp.Listing) []mcpToolJSON {
	out := []mcpToolJSON{}
	for _, t := range l.Tools {
		out = append(out, mcpToolJSON{Name: t.Name, Description: t.Description})
	}
	return out
}

// Decode returns the MCP servers of a request, or nil if the request lacks the field.
func Decode(in []MCPServerInJSON) []mcp.Server {
	if in == nil {
		return nil
	}
	servers := make([]mcp.Server, len(in))
	for i, one := range in {
		servers[i] = one.server()
	}
	return servers
}

// Encode validates a run's MCP servers, and returns them encoded for
// encryption. given is true if the request has the field, even if the list is
// empty.
func (s *API) Encode(in []MCPServerInJSON) (value string, given bool, err error) {
	if in == nil {
		return "", false, nil
	}
	value, err = s.MCP.CheckAll(Decode(in), "mcpServers")
	return value, true, err
}

// UnmarshalJSON rejects unknown fields: a misspelled field
// would otherwise be dropped silently.
func (in *MCPServerInJSON) UnmarshalJSON(data []byte) error {
	type plain MCPServerInJSON
	return rest.Strictly(data, (*plain)(in))
}
