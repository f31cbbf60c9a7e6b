// Package tool is the catalogue of tools that a model may call, with their descriptions.
// make generate generates the catalogue from proto/agent/v1. It is embedded in the
// program, so that a machine cannot offer its own tools to a model.
package tool

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"aloft/internal/conversation"
)

//go:embed catalogue.json
var catalogueJSON []byte

// Home is where a tool runs.
type Home string

// The places where a tool can run.
const (
	Guest   Home = "guest"   // in the machine
	Control Home = "control" // in the control plane
)

// Runner is the component that runs the calls of a tool.
type Runner string

// The components that can run a tool's calls.
const (
	Machine  Runner = "machine"  // exec-daemon, in the machine
	Prepared Runner = "prepared" // exec-daemon, with data that the server adds to the call
	MCP      Runner = "mcp"      // an MCP server, in the machine or elsewhere
	Server   Runner = "server"   // the server itself
	Subagent Runner = "subagent" // a separate conversation
	Person   Runner = "person"   // a person, who answers
)

// Spec is one tool of the catalogue.
type Spec struct {
	Name          string          `json:"name"`       // as the model calls it: "Grep"
	PublicName    string          `json:"publicName"` // as the public stream calls it: "grep"
	Description   string          `json:"description"`
	Schema        json.RawMessage `json:"schema"` // JSON schema of the arguments
	ReadOnly      bool            `json:"readOnly,omitempty"`
	Home          Home            `json:"home"`
	Runner        Runner          `json:"runner"`
	Reviewed      bool            `json:"reviewed,omitempty"`      // hooks and the run mode decide about each call
	MainAgentOnly bool            `json:"mainAgentOnly,omitempty"` // subagents lack it
}

// Result is the result of a call.
type Result struct {
	Text   string          // for the model
	Error  bool            // the call failed
	Why    Failure         // kind of the error; "" if unknown
	Output json.RawMessage // for programs: {"success": …} or {"error": …}
	Images []conversation.Image
}

// Failure is why a call failed.
type Failure string

// The failures, with the names used in hooks.
const (
	Timeout          Failure = "timeout"
	PermissionDenied Failure = "permission_denied"
)

var catalogue = sync.OnceValue(func() []Spec {
	var specs []Spec
	if err := json.Unmarshal(catalogueJSON, &specs); err != nil {
		panic(fmt.Sprintf("tool: catalogue.json: %v", err)) // the catalogue is embedded, so any test would detect this
	}
	return specs
})

// Catalogue returns all tools, in the order in which they are offered to models. The
// caller must not modify it.
func Catalogue() []Spec { return catalogue() }

// Lookup returns the tool with that name.
func Lookup(name string) (Spec, bool) {
	for _, s := range catalogue() {
		if s.Name == name {
			return s, true
		}
	}
	return Spec{}, false
}

// Digest returns the SHA-256 of the catalogue, in hex.
func Digest() string {
	sum := sha256.Sum256(catalogueJSON)
	return hex.EncodeToString(sum[:])
}

// ErrorOutput returns the Output of a call that failed.
func ErrorOutput(message string) json.RawMessage {
	b, _ := json.Marshal(map[string]any{"error": map[string]string{"message": message}}) // strings always marshal
	return b
}

// Failed returns the result of a call that failed.
func Failed(format string, args ...any) Result {
	msg := fmt.Sprintf(format, args...)
	return Result{Text: msg, Error: true, Output: ErrorOutput(msg)}
}
