package execd

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/text"
	"aloft/internal/wire/agentv1"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// UpdateEnvironmentVariables changes the environment of processes started from
// now on.
func (s *Server) UpdateEnvironmentVariables(ctx context.Context, req *connect.Request[agentv1.UpdateEnvironmentVariablesRequest]) (*connect.Response[agentv1.UpdateEnvironmentVariablesResponse], error) {
	if s.setEnv == nil {
		return nil, fault.NotImplemented("this machine's environment variables cannot be changed")
	}
	names := slices.Clone(req.Msg.GetUnset())
	for name, value := range req.Msg.GetSet() {
		if strings.ContainsRune(value, 0) { // do not repeat the value, which may be secret
			return nil, fault.Invalid("the value of %s contains a NUL byte", name).At("set")
		}
		names = append(names, name)
	}
	for _, name := range names {
		if !variableName.MatchString(name) {
			return nil, fault.Invalid("%q is not a valid variable name", text.Head(name, maxCallID)).
				Hint("use letters, digits and _, and do not begin with a digit")
		}
	}
	s.secrets.update(req.Msg.GetSet()) // before anything can print them
	if err := s.setEnv(ctx, req.Msg.GetSet(), req.Msg.GetUnset()); err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.UpdateEnvironmentVariablesResponse{}), nil
}
