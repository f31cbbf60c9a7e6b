package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	controlmcp "aloft/internal/control/mcp"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/secret"
)

// AgentMCP knows the MCP servers of agents. Its methods are safe for concurrent use.
type AgentMCP interface {
	// Show returns an agent's servers, and those that it does not get.
	Show(ctx context.Context, s *agent.State) ([]controlmcp.Shown, []mcp.LeftOut, error)
	// BeginSignIn begins a sign-in at one of them, for its person.
	BeginSignIn(ctx context.Context, s *agent.State, name string, back controlmcp.Back) (address, state string, err error)
}

type mcpAuthJSON struct {
	_            struct{} `json:"-" additionalProperties:"false"`
	ClientID     string   `json:"CLIENT_ID" minLength:"1"`
	ClientSecret string   `json:"CLIENT_SECRET,omitempty"`
	Scopes       []string `json:"scopes,omitempty" nullable:"false"`
}

// mcpServerInJSON is a server as a request names it: a program in the machine, or
// a remote one.
type mcpServerInJSON struct {
	_       struct{}          `json:"-" additionalProperties:"false"`
	Name    string            `json:"name" minLength:"1" maxLength:"64"`
	Type    string            `json:"type,omitempty" enum:"stdio,http,sse" doc:"follows from command or url"`
	Command string            `json:"command,omitempty" doc:"of a program that runs in the machine"`
	Args    []string          `json:"args,omitempty" nullable:"false"`
	Env     map[string]string `json:"env,omitempty" doc:"kept sealed, and never shown again"`
	URL     string            `json:"url,omitempty" format:"uri" doc:"of a remote server, which Aloft speaks with itself"`
	Headers map[string]string `json:"headers,omitempty" doc:"kept sealed, and never shown again; they enter no machine"`
	Auth    *mcpAuthJSON      `json:"auth,omitempty" doc:"the client that Aloft is to the server's provider of OAuth, where it registers none by itself"`
}

func (in mcpServerInJSON) server() mcp.Server {
	s := mcp.Server{Name: in.Name, Type: mcp.Transport(in.Type), Command: in.Command, Args: in.Args, Env: in.Env, URL: in.URL, Headers: in.Headers}
	if in.Auth != nil {
		s.Auth = &mcp.Auth{ClientID: in.Auth.ClientID, ClientSecret: in.Auth.ClientSecret, Scopes: in.Auth.Scopes}
	}
	return s
}

type addMCPServerRequestJSON struct {
	_       struct{}          `json:"-" additionalProperties:"true"`
	Owner   string            `json:"owner,omitempty" enum:"personal,team" default:"personal" doc:"team is for admins"`
	Name    string            `json:"name" minLength:"1" maxLength:"64"`
	Type    string            `json:"type,omitempty" enum:"stdio,http,sse" doc:"follows from command or url"`
	Command string            `json:"command,omitempty" doc:"of a program that runs in the machine"`
	Args    []string          `json:"args,omitempty" nullable:"false"`
	Env     map[string]string `json:"env,omitempty" doc:"kept sealed, and never shown again"`
	URL     string            `json:"url,omitempty" format:"uri" doc:"of a remote server, which Aloft speaks with itself"`
	Headers map[string]string `json:"headers,omitempty" doc:"kept sealed, and never shown again; they enter no machine"`
	Auth    *mcpAuthJSON      `json:"auth,omitempty" doc:"the client that Aloft is to the server's provider of OAuth, where it registers none by itself"`
}

func (in addMCPServerRequestJSON) server() mcp.Server {
	return mcpServerInJSON{Name: in.Name, Type: in.Type, Command: in.Command, Args: in.Args, Env: in.Env, URL: in.URL, Headers: in.Headers, Auth: in.Auth}.server()
}

type mcpClientJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	ClientID string   `json:"CLIENT_ID"`
	Secret   bool     `json:"secret" doc:"it has a CLIENT_SECRET"`
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
	CreatedAt time.Time      `json:"createdAt"`
}

type listMCPServersResponseJSON struct {
	_     struct{}        `json:"-" additionalProperties:"true"`
	Items []mcpServerJSON `json:"items" nullable:"false"`
}

type mcpToolJSON struct {
	_           struct{} `json:"-" additionalProperties:"true"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty" doc:"the server's words"`
}

type testMCPServerResponseJSON struct {
	_      struct{}        `json:"-" additionalProperties:"true"`
	State  string          `json:"state" enum:"ready,failed,needs_auth"`
	Tools  []mcpToolJSON   `json:"tools" nullable:"false"`
	Error  *errorInnerJSON `json:"error,omitempty" doc:"why it cannot be used"`
	TookMS int64           `json:"tookMs" minimum:"0"`
}

type beginMCPSignInRequestJSON struct {
	_          struct{} `json:"-" additionalProperties:"true"`
	ApprovalID string   `json:"approvalId,omitempty" doc:"the agent's question that the sign-in answers"`
}

type beginMCPSignInResponseJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Address string   `json:"authorizationUrl" doc:"where your browser goes to sign in: this very one, which was given a cookie"`
}

type agentMCPServerJSON struct {
	_        struct{}      `json:"-" additionalProperties:"true"`
	Name     string        `json:"name"`
	Source   string        `json:"source" enum:"team,agent,user,project" doc:"who names it"`
	Type     string        `json:"type,omitempty" enum:"stdio,http,sse"`
	Command  string        `json:"command,omitempty"`
	URL      string        `json:"url,omitempty" doc:"without its query"`
	State    string        `json:"state" enum:"unknown,starting,ready,failed,needs_auth,left_out" doc:"left_out: the agent does not get it"`
	Why      string        `json:"why,omitempty" doc:"why it cannot be used"`
	Tools    []mcpToolJSON `json:"tools,omitempty" nullable:"false"`
	SignedIn bool          `json:"signedIn,omitempty"`
}

type listAgentMCPServersResponseJSON struct {
	_     struct{}             `json:"-" additionalProperties:"true"`
	Items []agentMCPServerJSON `json:"items" nullable:"false"`
}

func (s *server) mcpRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/mcp-servers", id: "listMcpServers", summary: "List your MCP servers and your team's",
			status: 200, out: listMCPServersResponseJSON{}, handle: s.listMCPServers},
		{method: "POST", path: "/v1/mcp-servers", id: "addMcpServer", summary: "Give your agents, or all of the team's, an MCP server",
			in: addMCPServerRequestJSON{}, status: 201, out: mcpServerJSON{}, handle: s.addMCPServer},
		{method: "DELETE", path: "/v1/mcp-servers/{serverId}", id: "removeMcpServer", summary: "Remove an MCP server",
			status: 200, out: idResponseJSON{}, handle: s.removeMCPServer},
		{method: "POST", path: "/v1/mcp-servers/{serverId}/test", id: "testMcpServer", summary: "Connect to a remote MCP server, and list its tools", long: true,
			status: 200, out: testMCPServerResponseJSON{}, handle: s.testMCPServer},
		{method: "POST", path: "/v1/mcp-servers/{serverId}/sign-in", id: "beginMcpSignIn", summary: "Begin to sign in to an MCP server in this browser",
			status: 200, out: beginMCPSignInResponseJSON{}, handle: s.beginMCPSignIn},
		{method: "DELETE", path: "/v1/mcp-servers/{serverId}/sign-in", id: "endMcpSignIn", summary: "Forget your sign-in at an MCP server",
			status: 204, handle: s.endMCPSignIn},
		{method: "GET", path: controlmcp.CallbackPath, id: "mcpSignInCallback", summary: "Come back from where an MCP server has one sign in", open: true,
			query: []param{
				{name: "code", kind: "string", words: "the provider's"}, {name: "state", kind: "string", words: "as the sign-in began"},
				{name: "iss", kind: "string", words: "who the provider is"},
			},
			status: 302, handle: s.mcpSignInCallback},
		{method: "GET", path: "/v1/agents/{id}/mcp-servers", id: "listAgentMcpServers", summary: "List an agent's MCP servers, and why it cannot use some",
			status: 200, out: listAgentMCPServersResponseJSON{}, handle: s.listAgentMCPServers},
		{method: "POST", path: "/v1/agents/{id}/mcp-servers/{name}/sign-in", id: "beginAgentMcpSignIn", summary: "Begin to sign in, in this browser, to an MCP server for your agent",
			in: beginMCPSignInRequestJSON{}, status: 200, out: beginMCPSignInResponseJSON{}, handle: s.beginAgentMCPSignIn},
	}
}

func (s *server) keepsMCP() error {
	if s.MCP == nil {
		return fault.NotImplemented("this server keeps no MCP servers")
	}
	return nil
}

func (s *server) listMCPServers(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if err := s.keepsMCP(); err != nil {
		return err
	}
	all, err := s.MCP.List(r.Context(), who.UserID)
	if err != nil {
		return err
	}
	out := listMCPServersResponseJSON{Items: []mcpServerJSON{}}
	for _, k := range all {
		in, err := s.MCP.SignedIn(r.Context(), k.Server, controlmcp.User{ID: who.UserID})
		if err != nil {
			return err
		}
		out.Items = append(out.Items, mcpServerOf(k, in))
	}
	return writeJSON(w, http.StatusOK, out)
}

func mcpServerOf(k controlmcp.Kept, signedIn bool) mcpServerJSON {
	out := mcpServerJSON{
		ID: k.ID, Name: k.Name, Owner: string(secret.OfPerson), Type: string(k.Type), Command: k.Command, Args: k.Args,
		Env: slices.Sorted(maps.Keys(k.Env)), URL: withoutQuery(k.URL), Headers: slices.Sorted(maps.Keys(k.Headers)), SignedIn: signedIn, CreatedAt: stamp(k.CreatedAt),
	}
	if k.Team() {
		out.Owner = string(secret.OfTeam)
	}
	if k.Auth != nil {
		out.Auth = &mcpClientJSON{ClientID: k.Auth.ClientID, Secret: k.Auth.ClientSecret != "", Scopes: append([]string{}, k.Auth.Scopes...)}
	}
	return out
}

// withoutQuery is a URL without what of it may be secret.
func withoutQuery(raw string) string {
	before, _, cut := strings.Cut(raw, "?")
	if cut {
		return before + "?…"
	}
	return before
}

func (s *server) addMCPServer(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if err := s.keepsMCP(); err != nil {
		return err
	}
	var in addMCPServerRequestJSON
	if err := readBody(w, r, &in); err != nil {
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
	signedIn, err := s.MCP.SignedIn(r.Context(), k.Server, controlmcp.User{ID: who.UserID})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, mcpServerOf(k, signedIn))
}

func mayTeam(who account.APIKey) error {
	if !who.Role.Covers(account.Admin) {
		return fault.Denied("the team's MCP servers are for admins to change").Hint("add it as your own, or ask an admin")
	}
	return nil
}

// mcpServer returns the server that a request is about, of those that its user sees.
func (s *server) mcpServer(r *http.Request, who account.APIKey) (controlmcp.Kept, error) {
	if err := s.keepsMCP(); err != nil {
		return controlmcp.Kept{}, err
	}
	return s.MCP.Find(r.Context(), who.UserID, r.PathValue("serverId"))
}

func (s *server) removeMCPServer(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
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
	return writeJSON(w, http.StatusOK, idResponseJSON{ID: k.ID})
}

func (s *server) testMCPServer(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
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
		case controlmcp.CodeFailed:
			out.State = string(mcp.Failed)
		default:
			return err
		}
		out.Error = &errorInnerJSON{Code: f.Code, Message: f.Message}
	}
	out.Tools = mcpToolsOf(l)
	return writeJSON(w, http.StatusOK, out)
}

func mcpToolsOf(l mcp.Listing) []mcpToolJSON {
	out := []mcpToolJSON{}
	for _, t := range l.Tools {
		out = append(out, mcpToolJSON{Name: t.Name, Description: t.Description})
	}
	return out
}

func (s *server) beginMCPSignIn(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	k, err := s.mcpServer(r, who)
	if err != nil {
		return err
	}
	address, state, err := s.MCP.BeginSignIn(r.Context(), nil, k.Server, controlmcp.User{ID: who.UserID}, controlmcp.Back{Server: k.Name})
	return s.sendToSignIn(w, address, state, err)
}

// mcpCookie holds the state of a sign-in at an MCP server. The browser sends it
// along when the provider sends it back: one that somebody else began, with a link
// that they had made, ends nowhere.
const mcpCookie = "aloft_mcp_visit"

func (s *server) sendToSignIn(w http.ResponseWriter, address, state string, err error) error {
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{
		Name: mcpCookie, Value: state, Path: controlmcp.CallbackPath, MaxAge: 600, HttpOnly: true, Secure: s.secure(), SameSite: http.SameSiteLaxMode,
	})
	return writeJSON(w, http.StatusOK, beginMCPSignInResponseJSON{Address: address})
}

func (s *server) endMCPSignIn(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	k, err := s.mcpServer(r, who)
	if err != nil {
		return err
	}
	if err := s.MCP.SignOut(r.Context(), k.Server, controlmcp.User{ID: who.UserID}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// mcpSignInCallback ends on the dashboard either way. What went wrong is told
// there by its code alone: nobody can put words of their own into a link.
func (s *server) mcpSignInCallback(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	if err := s.keepsMCP(); err != nil {
		return err
	}
	kept := ""
	if c, err := r.Cookie(mcpCookie); err == nil {
		kept = c.Value
	}
	q := r.URL.Query()
	userID, back, err := s.MCP.EndSignIn(r.Context(), q.Get("state"), kept, q.Get("code"), q.Get("iss"))
	http.SetCookie(w, &http.Cookie{Name: mcpCookie, Path: controlmcp.CallbackPath, MaxAge: -1, HttpOnly: true, Secure: s.secure(), SameSite: http.SameSiteLaxMode})
	to, word := "/settings#mcp-servers", "signed-in"
	if back.AgentID != "" {
		to = "/agents/" + url.PathEscape(back.AgentID) + "/machine"
	}
	if err != nil {
		s.Logger.WarnContext(r.Context(), "somebody could not sign in to an MCP server", "server", back.Server, "error", err)
		word = faultOf(err).Code
	} else if err := s.answerSignIn(r.Context(), userID, back); err != nil {
		s.Logger.WarnContext(r.Context(), "an agent is not told that its person has signed in", "agent", back.AgentID, "error", err)
	}
	before, fragment, _ := strings.Cut(to, "#")
	to = before + "?" + url.Values{"mcp-server": {back.Server}, "mcp": {word}}.Encode()
	if fragment != "" {
		to += "#" + fragment
	}
	http.Redirect(w, r, to, http.StatusFound)
	return nil
}

// answerSignIn answers the agent's question that the sign-in was asked for by.
func (s *server) answerSignIn(ctx context.Context, userID int64, back controlmcp.Back) error {
	if back.AgentID == "" || back.ApprovalID == "" {
		return nil
	}
	err := s.decide(ctx, account.APIKey{UserID: userID, Role: account.Member}, back.AgentID, func(a agent.Agent) ([]agent.Event, error) {
		asked, open := a.Open(back.ApprovalID)
		if !open {
			return nil, nil // somebody has answered it meanwhile
		}
		return []agent.Event{{RunID: asked.RunID, Body: &agent.ApprovalAnswered{ApprovalID: asked.ID, Decision: agent.AllowOnce, UserID: userID}}}, nil
	})
	if err == nil {
		s.Work.Wake(back.AgentID)
	}
	return err
}

// mcpState folds the agent's journal for its servers.
func (s *server) mcpState(ctx context.Context, id string) (*agent.State, error) {
	state := agent.Fold(id, nil)
	for {
		events, err := s.Journal.Read(ctx, id, state.Agent.Head, 1000)
		if err != nil {
			return nil, err
		}
		if len(events) == 0 {
			return state, nil
		}
		for _, e := range events {
			state.Apply(e)
		}
	}
}

func (s *server) listAgentMCPServers(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	out := listAgentMCPServersResponseJSON{Items: []agentMCPServerJSON{}}
	if s.AgentMCP == nil {
		return writeJSON(w, http.StatusOK, out)
	}
	state, err := s.mcpState(r.Context(), a.ID)
	if err != nil {
		return err
	}
	servers, left, err := s.AgentMCP.Show(r.Context(), state)
	if err != nil {
		return err
	}
	for _, one := range servers {
		item := agentMCPServerJSON{
			Name: one.Name, Source: string(one.Source), Type: string(one.Type), Command: one.Command, URL: withoutQuery(one.URL), State: "unknown", SignedIn: one.SignedIn,
		}
		if l := one.Listing; l != nil {
			item.State, item.Why, item.Tools = string(l.State), l.Error, mcpToolsOf(*l)
		}
		out.Items = append(out.Items, item)
	}
	for _, l := range left {
		out.Items = append(out.Items, agentMCPServerJSON{Name: l.Name, Source: string(l.Source), State: "left_out", Why: l.Why})
	}
	return writeJSON(w, http.StatusOK, out)
}

func (s *server) beginAgentMCPSignIn(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	var in beginMCPSignInRequestJSON
	if err := readBody(w, r, &in); err != nil {
		return err
	}
	switch {
	case s.AgentMCP == nil:
		return fault.NotImplemented("this server keeps no MCP servers")
	case a.UserID != who.UserID:
		return fault.Conflict("the agent is another's: it acts for the person who made it").Hint("have them sign in")
	}
	state, err := s.mcpState(r.Context(), a.ID)
	if err != nil {
		return err
	}
	address, cookie, err := s.AgentMCP.BeginSignIn(r.Context(), state, r.PathValue("name"), controlmcp.Back{ApprovalID: in.ApprovalID})
	return s.sendToSignIn(w, address, cookie, err)
}

// mcpServers checks the servers that come with a run, and returns what is kept
// sealed of them; given is whether any came, which may be none.
func (s *server) mcpServers(in []mcpServerInJSON) (value string, given bool, err error) {
	if in == nil {
		return "", false, nil
	}
	if s.MCP == nil {
		return "", false, notImplemented("mcpServers", "MCP servers")
	}
	servers := make([]mcp.Server, len(in))
	for i, one := range in {
		servers[i] = one.server()
	}
	value, err = s.MCP.CheckAll(servers, "mcpServers")
	return value, true, err
}

// sealMCP seals those that come with a new agent.
func (s *server) sealMCP(ctx context.Context, agentID, runID, value string, given bool) ([]secret.Sealed, error) {
	if !given {
		return nil, nil
	}
	if s.Secrets == nil {
		return nil, errors.New("MCP servers without secrets")
	}
	sealed, err := s.Secrets.SealMCP(ctx, agentID, runID, value)
	return []secret.Sealed{sealed}, err
}
