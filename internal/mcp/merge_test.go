package mcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/environment"
)

// describe formats the result of a merge, one server per line.
func describe(kept []Server, out []LeftOut) string {
	var b strings.Builder
	for _, s := range kept {
		tools := "all"
		if s.Tools != nil {
			tools = "[" + strings.Join(s.Tools, " ") + "]"
		}
		fmt.Fprintf(&b, "%s %s %s\n", s.Source, s.Name, tools)
	}
	for _, o := range out {
		fmt.Fprintf(&b, "not %s %s: %s\n", o.Source, o.Name, o.Why)
	}
	return b.String()
}

func TestMerge(t *testing.T) {
	stdio := func(from Source, name, command string, args ...string) Server {
		return Server{Name: name, Command: command, Args: args, Source: from}
	}
	remote := func(from Source, name, url string) Server { return Server{Name: name, URL: url, Source: from} }
	allow := func(list ...environment.MCPServer) environment.Environment {
		return environment.Environment{MCPServerAllowlist: append([]environment.MCPServer{}, list...)}
	}
	for _, c := range []struct {
		name    string
		env     environment.Environment
		servers []Server
		want    string
	}{
		{"order is that of the sources, then of names", environment.Environment{},
			[]Server{stdio(Project, "b", "x"), stdio(User, "Z", "x"), stdio(Agent, "c", "x"), stdio(Team, "d", "x"), stdio(Project, "A", "x")},
			"team d all\nagent c all\nuser Z all\nproject A all\nproject b all\n"},
		{"a project cannot take the place of the team's", environment.Environment{},
			[]Server{stdio(Project, "GitHub", "evil"), remote(Team, "github", "https://a.example")},
			"team github all\nnot project GitHub: the team has a server of that name\n"},
		{"disableAllMcpServers", environment.Environment{DisableAllMCPServers: true},
			[]Server{stdio(Team, "a", "x"), stdio(Project, "b", "x")},
			"not team a: disableAllMcpServers of environment.json blocks all servers\nnot project b: disableAllMcpServers of environment.json blocks all servers\n"},
		{"an empty allowlist allows none", allow(), []Server{stdio(User, "a", "x")},
			"not user a: mcpServerAllowlist of environment.json has no entry for it\n"},
		{"by command", allow(environment.MCPServer{Command: "npx -y @example/mcp"}),
			[]Server{stdio(User, "a", "npx", "-y", "@example/mcp"), stdio(User, "b", "npx"), stdio(User, "c", "npx", "-y @example/mcp"), stdio(User, "d", "npx", "-y", "@example/mcp", "--x")},
			"user a all\nnot user b: mcpServerAllowlist of environment.json has no entry for it\nnot user c: mcpServerAllowlist of environment.json has no entry for it\nnot user d: mcpServerAllowlist of environment.json has no entry for it\n"},
		{"by command with a star", allow(environment.MCPServer{Command: "npx -y @example/*"}), []Server{stdio(User, "a", "npx", "-y", "@example/b"), stdio(User, "b", "npx", "-y", "@other/b")},
			"user a all\nnot user b: mcpServerAllowlist of environment.json has no entry for it\n"},
		{"by URL", allow(environment.MCPServer{ServerURL: "https://A.example:443/mcp/"}),
			[]Server{remote(User, "a", "https://a.example/mcp"), remote(User, "b", "https://a.example/mcp2"), remote(User, "c", "http://a.example/mcp"), remote(User, "d", "https://a.example.evil/mcp"), remote(User, "e", "https://a.example/mcp?x=1")},
			"user a all\n" + none("b", "c", "d", "e")},
		{"by URL with stars", allow(environment.MCPServer{ServerURL: "https://*.a.example/mcp/*"}),
			[]Server{remote(User, "a", "https://x.a.example/mcp/1"), remote(User, "b", "https://a.example/mcp/1"), remote(User, "c", "https://evil/x.a.example/mcp/1"), remote(User, "d", "https://x.a.example/other"), remote(User, "e", "https://xa.example/mcp/1")},
			"user a all\n" + none("b", "c", "d", "e")},
		{"a star is no host", allow(environment.MCPServer{ServerURL: "https://*/mcp"}), []Server{remote(User, "a", "https://x/mcp")}, none("a")},
		{"a variable is no URL", allow(environment.MCPServer{ServerURL: "https://a.example/*"}), []Server{remote(User, "a", "https://a.example/${env:X}")}, none("a")},
		{"tools of two entries", allow(environment.MCPServer{Command: "x", ToolAllowlist: []string{"a"}}, environment.MCPServer{Command: "x*", ToolAllowlist: []string{"b*"}}),
			[]Server{stdio(User, "s", "x")}, "user s [a b*]\n"},
		{"tools of one that names none", allow(environment.MCPServer{Command: "x", ToolAllowlist: []string{"a"}}, environment.MCPServer{Command: "x"}),
			[]Server{stdio(User, "s", "x")}, "user s all\n"},
		{"an empty list of tools", allow(environment.MCPServer{Command: "x", ToolAllowlist: []string{}}), []Server{stdio(User, "s", "x")}, "user s []\n"},
		{"two lists narrow one another", allow(environment.MCPServer{Command: "x", ToolAllowlist: []string{"get*", "put"}}),
			[]Server{{Name: "s", Command: "x", Source: Team, Tools: []string{"get_a", "p*", "del"}}}, "team s [get_a put]\n"},
		{"one that cannot be used", environment.Environment{}, []Server{stdio(User, "a:b", "x"), {Name: "c", Source: User}},
			"not user a:b: name: \"a:b\" is not a valid server name\nnot user c: command or url is missing\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, describe(Merge(c.env, c.servers...))); diff != "" {
				t.Error(diff)
			}
			// The order of the sources does not matter.
			slices.Reverse(c.servers)
			if kept, out := Merge(c.env, c.servers...); len(kept)+len(out) != len(c.servers) {
				t.Errorf("%d kept and %d left out of %d", len(kept), len(out), len(c.servers))
			}
		})
	}
}

func none(names ...string) string {
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "not user %s: mcpServerAllowlist of environment.json has no entry for it\n", n)
	}
	return b.String()
}

// A restriction that cannot be parsed allows nothing.
func TestRestrictionsThatCannotBeRead(t *testing.T) {
	s := Server{Name: "s", Command: "x", Source: Team}
	for _, wrong := range []string{`"x"`, `5`, `true`, `{"command":"x"}`, `""`, `[["x"]]`} {
		for _, file := range []string{`{"mcpServerAllowlist":` + wrong, `{"mcpServerAllowlist":[{"command":"x"}],"mcpServerAllowlist":` + wrong, `{"disableAllMcpServers":` + wrong} {
			if file == `{"disableAllMcpServers":true` {
				continue // a restriction that can be parsed
			}
			e, findings := environment.Parse(environment.Files[0], []byte(file+"}"))
			if kept, _ := Merge(e, s); len(kept) != 0 || findings.Worst() != environment.Error {
				t.Errorf("%s}: kept %v, found %v", file, kept, findings)
			}
		}
	}
	for tools, want := range map[string]string{
		`"echo"`: "[]", `{"echo":true}`: "[]", `5`: "[]", `false`: "[]", `[5]`: "[]", `[5,"echo",{}]`: "[echo]", `["echo"],"toolAllowlist":"echo"`: "[]", `null`: "all",
	} {
		e, findings := environment.Parse(environment.Files[0], []byte(`{"mcpServerAllowlist":[{"command":"x","toolAllowlist":`+tools+`}]}`))
		if got := describe(Merge(e, s)); got != "team s "+want+"\n" || (len(findings) == 0) != (want == "all") {
			t.Errorf("%s: %s, found %v", tools, got, findings)
		}
	}
}

// An environment can only remove servers and tools, not add them.
func TestAnEnvironmentOnlyNarrows(t *testing.T) {
	var servers []Server
	for i := range MaxServers + 5 {
		servers = append(servers, Server{Name: fmt.Sprintf("s%02d", i), Command: fmt.Sprint("c", i%7), Source: Sources[i%len(Sources)], Tools: []string{"a*", "b"}})
	}
	all, _ := Merge(environment.Environment{})
	if len(all) != 0 {
		t.Error(all)
	}
	free, out := Merge(environment.Environment{}, servers...)
	if len(free) != MaxServers || len(out) != 5 {
		t.Errorf("%d kept, %d left out", len(free), len(out))
	}
	kept, _ := Merge(environment.Environment{MCPServerAllowlist: []environment.MCPServer{{Command: "c1"}, {Command: "c2", ToolAllowlist: []string{"*"}}}}, servers...)
	for _, s := range kept {
		for _, tool := range []string{"a", "ab", "b", "c", ""} {
			if was, ok := Find(servers, s.Name); !ok || s.Allows(tool) && !was.Allows(tool) {
				t.Errorf("%s gained %q", s.Name, tool)
			}
		}
	}
}

func TestExpand(t *testing.T) {
	v := Variables{UserHome: "/home/u", Workspace: "/workspace/app", Env: func(n string) (string, bool) {
		value, ok := map[string]string{"T": "s3cret", "NEST": "${env:T}", "BIG": strings.Repeat("x", maxValue/2), "BAD": "a\nb"}[n]
		return value, ok
	}}
	for in, want := range map[string]string{
		"${env:T}": "s3cret", "a${env:T}b${T}": "as3cretbs3cret", "${userHome}${/}x": "/home/u/x", "${workspaceFolder}": "/workspace/app",
		"${workspaceFolderBasename}": "app", "${pathSeparator}": "/", "${env:NEST}": "${env:T}", "${env:NONE:-d}": "d", "${NONE:-}": "",
		"${input:x}": "${input:x}", "$T": "$T", "${": "${", "${}": "${}", "$${env:T}": "$s3cret",
	} {
		if got, err := v.expand(in); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	s := Server{
		Name: "s", Command: "${userHome}/bin/x", Args: []string{"${T}"}, Env: map[string]string{"A": "${env:T}"}, EnvFile: "${workspaceFolder}/.env",
	}
	got, err := s.Expand(v)
	if err != nil || got.Line() != "/home/u/bin/x s3cret" || got.Env["A"] != "s3cret" || got.EnvFile != "/workspace/app/.env" || s.Env["A"] != "${env:T}" || s.Args[0] != "${T}" {
		t.Errorf("%q %v, %v; the first is now %v %v", got.Line(), got.Env, err, s.Args, s.Env)
	}
	r := Server{Name: "r", URL: "https://${env:T}.example", Headers: map[string]string{"A": "Bearer ${T}"}, Auth: &Auth{ClientID: "${T}", Scopes: []string{"${T}"}}}
	if got, err := r.Expand(v); err != nil || got.URL != "https://s3cret.example" || got.Headers["A"] != "Bearer s3cret" || got.Auth.ClientID != "s3cret" || got.Auth.Scopes[0] != "s3cret" || r.Auth.ClientID != "${T}" {
		t.Errorf("%v, %v", got, err)
	}
	for name, bad := range map[string]Server{
		"s: env.A: the variable NONE is not set":     {Name: "s", Command: "x", Env: map[string]string{"A": "${env:NONE}"}},
		"after expanding variables it has more than": {Name: "s", Command: "x", Args: []string{"${BIG}${BIG}${BIG}"}},
		"headers.A: it contains a control character": {Name: "s", URL: "https://x", Headers: map[string]string{"A": "${BAD}"}},
		"url: not a valid URL":                       {Name: "s", URL: "https://x/${BAD}"},
		"url: it contains an unknown variable":       {Name: "s", URL: "https://x/${env:NEST}"},
	} {
		if _, err := bad.Expand(v); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "a\nb") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No formatting verb prints a server's secrets.
func TestServersPrintNoSecrets(t *testing.T) {
	s := Server{Name: "s", Command: "x", Env: map[string]string{"A": "hunter2"}, Headers: map[string]string{"B": "hunter2"}, Auth: &Auth{ClientSecret: "hunter2"}}
	if text := fmt.Sprintf("%v %+v %#v %s %q %v", s, s, s, s, s, s.LogValue()); strings.Contains(text, "hunter2") {
		t.Error(text)
	}
}
