package mcp

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"aloft/internal/environment"
	"aloft/internal/policy/pattern"
)

// LeftOut is a server that an agent cannot use, or that another server replaces.
type LeftOut struct {
	Name   string `json:"name"`
	Source Source `json:"source"`
	Why    string `json:"why"` // for users; contains no secrets
}

// Merge returns the servers that an agent can use from all sources, ordered as [Sources]
// and then by name. If two have the same name, the earlier source wins: a repository
// cannot replace a server to which the team's rules refer. The environment can only
// remove servers.
func Merge(e environment.Environment, all ...Server) ([]Server, []LeftOut) {
	var kept []Server
	var out []LeftOut
	leave := func(s Server, format string, args ...any) {
		out = append(out, LeftOut{s.Name, s.Source, fmt.Sprintf(format, args...)})
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Server) int {
		if d := slices.Index(Sources, a.Source) - slices.Index(Sources, b.Source); d != 0 {
			return d
		}
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	for _, s := range all {
		if e.DisableAllMCPServers {
			leave(s, "disableAllMcpServers of environment.json blocks all servers")
			continue
		}
		if p := s.Check(); len(p) > 0 {
			leave(s, "%s", strings.TrimPrefix(p[0].Key+": "+p[0].Message, ": "))
			continue
		}
		if was, ok := Find(kept, s.Name); ok {
			leave(s, "the %s has a server of that name", was.Source)
			continue
		}
		s, ok := admit(s, e.MCPServerAllowlist)
		if !ok {
			leave(s, "mcpServerAllowlist of environment.json has no entry for it")
			continue
		}
		if len(kept) == MaxServers {
			leave(s, "an agent has at most %d servers", MaxServers)
			continue
		}
		kept = append(kept, s)
	}
	return kept, out
}

// admit restricts a server to the tools that the list allows: all tools if the
// list is nil, none if it is empty. If several entries match the server, the
// tools of all of them are allowed.
func admit(s Server, list []environment.MCPServer) (Server, bool) {
	if list == nil {
		return s, true
	}
	var tools []string
	found, all := false, false
	for _, e := range list {
		if !isNamed(s, e) {
			continue
		}
		found = true
		all = all || e.ToolAllowlist == nil
		tools = append(tools, e.ToolAllowlist...)
	}
	if found && !all {
		if tools == nil {
			tools = []string{}
		}
		s.Tools = narrow(s.Tools, tools)
	}
	return s, found
}

// narrow returns the patterns that both lists allow. It drops a pattern of the first
// list that is wider than those of the second.
func narrow(have, list []string) []string {
	if have == nil {
		return list
	}
	both := []string{}
	for _, h := range have {
		for _, l := range list {
			switch {
			case pattern.Match(l, h):
				both = append(both, h)
			case pattern.Match(h, l):
				both = append(both, l)
			}
		}
	}
	slices.Sort(both)
	return slices.Compact(both)
}

// isNamed reports whether an entry of mcpServerAllowlist matches the server. The entry
// contains either a URL, in which * matches any text of the path and *. any part of the
// host, or a command with its arguments on one line, in which * matches any text.
func isNamed(s Server, e environment.MCPServer) bool {
	if e.Command != "" {
		return s.Command != "" && pattern.Match(e.Command, s.Line())
	}
	if s.URL == "" || e.ServerURL == "" {
		return false
	}
	if e.ServerURL == s.URL {
		return true
	}
	want, err := url.Parse(strings.ReplaceAll(e.ServerURL, "*", "-any-"))
	if err != nil {
		return false
	}
	have, err := url.Parse(s.URL)
	if err != nil || have.User != nil || strings.Contains(s.URL, "${") {
		return false
	}
	if !strings.EqualFold(want.Scheme, have.Scheme) || port(want) != port(have) {
		return false
	}
	host, server := strings.ToLower(want.Hostname()), strings.ToLower(have.Hostname())
	if parent, any := strings.CutPrefix(host, "-any-."); any {
		if strings.Contains(parent, "-any-") || !strings.HasSuffix(server, "."+parent) {
			return false
		}
	} else if host != server {
		return false
	}
	allowed := strings.ReplaceAll(strings.TrimSuffix(want.EscapedPath(), "/")+query(want), "-any-", "*")
	return pattern.Match(allowed, strings.TrimSuffix(have.EscapedPath(), "/")+query(have))
}

func query(u *url.URL) string {
	if u.RawQuery == "" {
		return ""
	}
	return "?" + u.RawQuery
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case strings.EqualFold(u.Scheme, "http"):
		return "80"
	}
	return "443"
}
