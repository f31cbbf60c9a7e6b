package execd

import (
	"context"
	"encoding/json"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aloft/internal/fault"
	guest "aloft/internal/guest/mcp"
	"aloft/internal/mcp"
	"aloft/internal/wire/agentv1"
)

// maxServersWait is the longest time that a caller can wait for servers to
// start.
const maxServersWait = time.Minute

// UseServers makes the machine run exactly the given MCP servers, and returns
// their listings.
func (s *Server) UseServers(ctx context.Context, req *connect.Request[agentv1.UseServersRequest]) (*connect.Response[agentv1.UseServersResponse], error) {
	if s.servers == nil {
		return nil, fault.NotImplemented("this exec-daemon does not support MCP servers")
	}
	var servers []mcp.Server
	if err := json.Unmarshal(req.Msg.GetServers(), &servers); err != nil {
		return nil, fault.Invalid("servers is not a list of MCP servers").At("servers") // do not repeat the list, which may contain secrets
	}
	if len(servers) > mcp.MaxServers {
		return nil, fault.Invalid("%d servers are too many; the limit is %d", len(servers), mcp.MaxServers).At("servers")
	}
	for i := range servers {
		if p := servers[i].Check(); len(p) > 0 {
			return nil, fault.Invalid("%s: %s: %s", servers[i].Name, p[0].Key, p[0].Message).At("servers").Hint("%s", p[0].Instead)
		}
	}
	var around guest.Around
	policy := ""
	if p := req.Msg.GetSandboxPolicy(); p != nil {
		wrap, err := s.sandbox.Around(p)
		if err != nil {
			return nil, fault.Invalid("%v", err).At("sandbox_policy")
		}
		around = wrap
		key, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
		if err != nil {
			return nil, err
		}
		policy = string(key)
	}
	s.servers.Use(servers, around, policy)
	wait := min(time.Duration(max(req.Msg.GetWaitMs(), 0))*time.Millisecond, maxServersWait)
	text, err := json.Marshal(s.servers.List(ctx, wait))
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.UseServersResponse{Listings: text}), nil
}
