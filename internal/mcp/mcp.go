// Package mcp defines the concepts of the Model Context Protocol: what a server is, how
// mcp.json configures servers, which servers an agent can use, and how a server's texts
// are shown to a model. It does not connect to servers: internal/guest/mcp does that for
// programs in the machine, and the control plane for remote servers.
//
// A server's descriptions, tools and results are untrusted. A server can neither add a
// tool to Aloft's catalogue nor change one: its tools are data, shown as the server's
// own text, and can only be called through CallMcpTool.
package mcp

import (
	"log/slog"
	"strings"

	"aloft/internal/policy/pattern"
)

// Limits. MaxServers is part of the public API. The others are far above the needs of
// real servers, and limit the cost of malicious ones.
const (
	MaxFile        = 256 << 10 // bytes of mcp.json
	MaxServers     = 50        // for one agent
	MaxTools       = 128       // of one server; further tools cannot be called
	MaxName        = 64        // bytes of a server's name
	MaxToolName    = 128       // bytes of a tool's name, the protocol's limit
	MaxDescription = 2048      // runes of a tool's description
	MaxSchema      = 16 << 10  // bytes of the JSON schema of a tool's arguments
	MaxTold        = 64 << 10  // bytes of the description of all servers for the model
	MaxText        = 32 << 10  // bytes of a result's text that the model sees
	MaxImages      = 8         // images of a result that the model sees
	MaxImage       = 5 << 20   // bytes of each image
	MaxResources   = 500       // of one server in a list
	maxArgs        = 256
	maxVariables   = 256
	maxValue       = 32 << 10 // bytes of an argument, a variable or a header, also after expanding variables
)

// Transport is the way to connect to a server.
type Transport string

// The ways to connect to a server.
const (
	Stdio Transport = "stdio" // a program in the machine
	HTTP  Transport = "http"  // streamable HTTP, by the control plane
	SSE   Transport = "sse"   // the older HTTP transport, by the control plane
)

// Source says who configured a server.
type Source string

// The sources. If several sources configure a server with the same name, the
// first of these takes precedence.
const (
	Team    Source = "team"
	Agent   Source = "agent" // the request that created the agent or the run
	User    Source = "user"
	Project Source = "project" // the repository's file
)

// Sources are all sources in order of precedence.
var Sources = []Source{Team, Agent, User, Project}

// Server is the configuration of one server. Its JSON is the format of mcp.json and of
// the API, without Source and Tools. Env, Headers and Auth may contain secrets and are
// left out when a Server is logged.
type Server struct {
	Name    string    `json:"name"`
	Type    Transport `json:"type,omitempty"`
	Command string    `json:"command,omitempty"` // for Stdio: the program, searched in PATH
	Args    []string  `json:"args,omitempty"`
	// Env is added to the environment of the machine's commands.
	Env map[string]string `json:"env,omitempty"`
	// EnvFile is a file of NAME=value lines in the workspace; Env takes
	// precedence.
	EnvFile string            `json:"envFile,omitempty"`
	URL     string            `json:"url,omitempty"` // for HTTP and SSE
	Headers map[string]string `json:"headers,omitempty"`
	Auth    *Auth             `json:"auth,omitempty"`

	Source Source `json:"source,omitempty"`
	// Tools are the tools that may be called; * matches any text. nil allows all tools, an
	// empty list none.
	Tools []string `json:"toolAllowlist,omitzero"`
}

// Auth is an OAuth client that is already registered with the server.
type Auth struct {
	ClientID     string   `json:"CLIENT_ID"`
	ClientSecret string   `json:"CLIENT_SECRET,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
}

// Remote reports whether the control plane connects to the server; otherwise
// the machine runs it.
func (s Server) Remote() bool { return s.Type != Stdio }

// Allows reports whether the tool with that name may be called.
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

// Line returns the command and its arguments on one line, as in
// mcpServerAllowlist. Arguments with special characters are quoted, so that
// different commands have different lines.
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

// LogValue returns the parts of a server that contain no secrets, for the log.
func (s Server) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", s.Name), slog.String("type", string(s.Type)), slog.String("source", string(s.Source)))
}

// String returns the server's name, so that formatting a Server never prints
// its secrets.
func (s Server) String() string { return s.Name }

// GoString is [Server.String].
func (s Server) GoString() string { return s.Name }

// SameName reports whether two server names are equal, ignoring case as
// mcpAllowlist does.
func SameName(a, b string) bool { return strings.EqualFold(a, b) }

// Find returns the server with that name.
func Find(servers []Server, name string) (Server, bool) {
	for _, s := range servers {
		if SameName(s.Name, name) {
			return s, true
		}
	}
	return Server{}, false
}
