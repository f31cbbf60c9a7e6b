package execd

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
)

// defaultGateway is the git gateway's address in the machine, as pod-daemon
// sets it up.
const defaultGateway = "http://127.0.0.1:26499"

// gitCredential is the credential that the agent's git processes present to the
// git gateway. It is in a configuration file that environment variables point
// to. Variables take precedence over other configuration, and need not change
// when the credential does.
type gitCredential struct {
	file string

	mu           sync.Mutex
	gateway      string
	variablesSet bool // the variables are set for processes
}

// RefreshGithubAccessToken replaces git's credential for the git gateway.
func (s *Server) RefreshGithubAccessToken(ctx context.Context, req *connect.Request[agentv1.RefreshGithubAccessTokenRequest]) (*connect.Response[agentv1.RefreshGithubAccessTokenResponse], error) {
	token := req.Msg.GetAccessToken()
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return nil, fault.Invalid("the token must be printable ASCII without spaces").At("access_token")
	}
	if s.setEnv == nil {
		return nil, fault.NotImplemented("this machine's environment variables cannot be changed, but git needs one for its credential")
	}
	g := s.git
	g.mu.Lock()
	defer g.mu.Unlock()
	if given := req.Msg.GetGatewayUrl(); given != "" {
		u, err := url.Parse(given)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return nil, fault.Invalid("%.200q is not the URL of a git gateway", given).At("gateway_url").Hint("as %s", defaultGateway)
		}
		g.gateway = u.Scheme + "://" + u.Host
	}
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace
	// The empty value resets the headers that other configuration files set.
	text := fmt.Sprintf("[http \"%s/\"]\n\textraHeader = \n\textraHeader = \"Authorization: Bearer %s\"\n", quote(g.gateway), quote(token))
	file, err := replaceFile(g.file, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := file.WriteString(text); err != nil {
		_ = file.drop() // the first error is reported
		return nil, fileFault(g.file, err)
	}
	if err := file.commit(condition{}); err != nil {
		return nil, err
	}
	if !g.variablesSet {
		if err := s.setEnv(ctx, map[string]string{
			"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "include.path", "GIT_CONFIG_VALUE_0": g.file,
		}, nil); err != nil {
			return nil, err
		}
		g.variablesSet = true
	}
	return connect.NewResponse(&agentv1.RefreshGithubAccessTokenResponse{}), nil
}
