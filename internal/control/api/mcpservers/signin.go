package mcpservers

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	controlmcp "aloft/internal/control/mcp"
	"aloft/internal/fault"
)

type beginMCPSignInRequestJSON struct {
	_          struct{} `json:"-" additionalProperties:"true"`
	ApprovalID string   `json:"approvalId,omitempty" doc:"the agent's request that this sign-in resolves"`
}

type beginMCPSignInResponseJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Address string   `json:"authorizationUrl" doc:"sign-in page; open it in this browser, which has received a cookie"`
}

func (s *API) beginMCPSignIn(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	k, err := s.mcpServer(r, who)
	if err != nil {
		return err
	}
	address, state, err := s.MCP.BeginSignIn(r.Context(), nil, k.Server, controlmcp.User{ID: who.UserID}, controlmcp.ReturnTo{Home: s.home(r), Server: k.Name})
	return s.sendToSignIn(w, address, state, err)
}

// mcpCookie holds the state of a sign-in with an MCP server. The provider's
// redirect must contain the same state, so an attacker's link cannot complete a
// sign-in in a victim's browser.
const mcpCookie = "aloft_mcp_visit"

func (s *API) sendToSignIn(w http.ResponseWriter, address, state string, err error) error {
	if err != nil {
		return err
	}
	http.SetCookie(w, s.VisitCookie(mcpCookie, controlmcp.CallbackPath, state))
	return rest.WriteJSON(w, http.StatusOK, beginMCPSignInResponseJSON{Address: address})
}

func (s *API) endMCPSignIn(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
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

// mcpSignInCallback always redirects to the dashboard. Of an error it
// passes only the code to the dashboard, so that nobody can craft a link that shows
// text of their choice.
func (s *API) mcpSignInCallback(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	q := r.URL.Query()
	userID, back, err := s.MCP.EndSignIn(r.Context(), q.Get("state"), s.VisitState(r, mcpCookie), q.Get("code"), q.Get("iss"))
	http.SetCookie(w, s.VisitCookie(mcpCookie, controlmcp.CallbackPath, ""))
	to, word := "/settings#mcp-servers", "signed-in"
	if back.AgentID != "" {
		to = "/agents/" + url.PathEscape(back.AgentID) + "/machine"
	}
	if err != nil {
		s.Logger.WarnContext(r.Context(), "sign-in to an MCP server failed", "server", back.Server, "error", err)
		word = rest.FaultOf(err).Code
	} else if err := s.answerSignIn(r.Context(), userID, back); err != nil {
		s.Logger.WarnContext(r.Context(), "cannot tell an agent that its owner has signed in", "agent", back.AgentID, "error", err)
	}
	before, fragment, _ := strings.Cut(to, "#")
	to = before + "?" + url.Values{"mcp-server": {back.Server}, "mcp": {word}}.Encode()
	if fragment != "" {
		to += "#" + fragment
	}
	http.Redirect(w, r, to, http.StatusFound)
	return nil
}

// answerSignIn resolves the approval that requested this sign-in.
func (s *API) answerSignIn(ctx context.Context, userID int64, back controlmcp.ReturnTo) error {
	if back.AgentID == "" || back.ApprovalID == "" {
		return nil
	}
	err := s.Decide(ctx, account.APIKey{UserID: userID, Role: account.Member}, back.AgentID, func(a agent.Agent) ([]agent.Event, error) {
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

func (s *API) beginAgentMCPSignIn(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	var in beginMCPSignInRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	switch {
	case s.AgentMCP == nil:
		return fault.NotImplemented("MCP servers are not enabled on this server").Named(rest.CodeOff)
	case a.UserID != who.UserID:
		return fault.Conflict("the agent belongs to somebody else: it acts for its owner").Hint("ask the owner to sign in")
	}
	state, err := s.Folded(r.Context(), a.ID)
	if err != nil {
		return err
	}
	address, cookie, err := s.AgentMCP.BeginSignIn(r.Context(), state, r.PathValue("name"), controlmcp.ReturnTo{Home: s.home(r), ApprovalID: in.ApprovalID})
	return s.sendToSignIn(w, address, cookie, err)
}

// home returns the server's base URL as this browser knows it. For a browser on
// the server's own host it may differ from the public URL, and browsers do not
// send a cookie for 127.0.0.1 to localhost.
func (s *API) home(r *http.Request) string {
	public, err := url.Parse(s.PublicURL())
	if err != nil || public.Scheme != "http" || !ownHost(public.Host) || !ownHost(r.Host) {
		return s.PublicURL()
	}
	return "http://" + r.Host
}

// ownHost reports whether a host, with or without a port, is the local host.
func ownHost(host string) bool {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
