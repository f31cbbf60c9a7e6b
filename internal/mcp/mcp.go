// Package mcp is the noun of MCP, the Model Context Protocol: what a server is,
// how mcp.json names servers, whose servers an agent gets, and what of a server's
// words a model is shown. It speaks with no server: internal/guest/mcp does with
// those that are programs in the machine, and the control plane with remote ones.
//
// What a server says of itself, its tools and their results, is foreign text.
// A server can neither add a tool to Aloft's catalogue nor change one: its tools
// are data, told as its own words, and called through CallMcpTool alone.
package mcp

import (
	"log/slog"
	"strings"

	"aloft/internal/policy/pattern"
)

// Limits. The count of servers is that of the public API; the others are far above
// what real servers have, and keep a hostile one from costing more than a real one.
const (
	MaxFile        = 256 << 10 // bytes of mcp.json
	MaxServers     = 50        // of one agent
	MaxTools       = 128       // of one server; the rest cannot be called
	MaxName        = 64        // bytes of a server's name
	MaxToolName    = 128       // bytes of a tool's name, as the protocol has it
	MaxDescription = 2048      // runes of a tool's description
	MaxSchema      = 16 << 10  // bytes of the JSON schema of a tool's arguments
	MaxTold        = 64 << 10  // bytes of what a model is told of all servers together
	MaxText        = 32 << 10  // bytes of a result's text that a model is shown
	MaxImages      = 8         // pictures of a result that a model is shown
	MaxImage       = 5 << 20   // bytes of each of them
	MaxResources   = 500       // of one server that a list holds
	maxArgs        = 256
	maxVariables   = 256
	maxValue       = 32 << 10 // bytes of an argument, a variable or a header, also when expanded
)

// Transport is how a server is spoken with.
type Transport string

// The transports.
const (
	Stdio Transport = "stdio" // a program in the machine
	HTTP  Transport = "http"  // streamable HTTP, by the control plane
	SSE   Transport = "sse"   // the older HTTP transport, by the control plane
)

// Source is who names a server.
type Source string

// The sources, in the order in which they win where two have a name in common.
const (
	Team    Source = "team"
	Agent   Source = "agent" // the request that made the agent, or its run
	User    Source = "user"
	Project Source = "project" // the file of the repository
)

// Sources are all sources; the first wins.
var Sources = []Source{Team, Agent, User, Project}

// Server is one server as it is configured. Its JSON is that of mcp.json and of
// the API; Source and Tools are in neither. Env, Headers and Auth may hold
// secrets: they are left out where a Server is logged.
type Server struct {
	Name    string    `json:"name"`
	Type    Transport `json:"type,omitempty"`
	Command string    `json:"command,omitempty"` // of Stdio: the program, found by PATH
	Args    []string  `json:"args,omitempty"`
	// Env is added to the environment that the machine's commands have.
	Env map[string]string `json:"env,omitempty"`
	// EnvFile is a file of NAME=value lines in the workspace; Env wins over it.
	EnvFile string            `json:"envFile,omitempty"`
	URL     string            `json:"url,omitempty"` // of HTTP and SSE
	Headers map[string]string `json:"headers,omitempty"`
	Auth    *Auth             `json:"auth,omitempty"`

	Source Source `json:"source,omitempty"`
	// Tools are those that may be called, * for any text; nil is all, and an empty list none.
	Tools []string `json:"toolAllowlist,omitzero"`
}

// Auth is an OAuth client that the server knows already.
type Auth struct {
	ClientID     string   `json:"CLIENT_ID"`
	ClientSecret string   `json:"CLIENT_SECRET,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
}

// Remote reports whether the control plane speaks with the server; else the
// machine runs it.
func (s Server) Remote() bool { return s.Type != Stdio }

// Allows reports whether the tool of that name may be called.
func (s Server) Allows(tool string) bool {
	if s.Tools == nil {
		return true
	}
	for _, allowed := range s.Tools {
		if pattern.Match(allowed, tool) {
			return true
		}
	}
	return false
}

// Line is the command and its arguments on one line, as mcpServerAllowlist has
// them; what holds more than plain characters is quoted, so that two commands
// that differ have lines that differ.
func (s Server) Line() string {
	words := []string{quote(s.Command)}
	for _, a := range s.Args {
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

func quote(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-*${}"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// LogValue is what a log shows of a server: nothing that may hold a secret.
func (s Server) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", s.Name), slog.String("type", string(s.Type)), slog.String("source", string(s.Source)))
}

// String is the server's name, so that no verb prints its secrets.
func (s Server) String() string { return s.Name }

// GoString is [Server.String].
func (s Server) GoString() string { return s.Name }

// Same reports whether two names of servers are one: case does not count, as it
// does not in mcpAllowlist.
func Same(a, b string) bool { return strings.EqualFold(a, b) }

// Find returns the server of that name.
func Find(servers []Server, name string) (Server, bool) {
	for _, s := range servers {
		if Same(s.Name, name) {
			return s, true
		}
	}
	return Server{}, false
}
