// Package tool is the catalogue: every tool that a model may call, with the
// words it is told. The catalogue is made from proto/agent/v1 by make generate
// and embedded, so that a machine cannot talk a model into a tool of its own.
package tool

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
)

//go:embed catalogue.json
var catalogueJSON []byte

// Home is where a tool acts.
type Home string

// Homes.
const (
	Guest   Home = "guest"   // in the machine
	Control Home = "control" // in the control plane
)

// Spec is one tool of the catalogue.
type Spec struct {
	Name        string          `json:"name"`       // as the model calls it: "Grep"
	PublicName  string          `json:"publicName"` // as the public stream calls it: "grep"
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON schema of the arguments
	ReadOnly    bool            `json:"readOnly,omitempty"`
	Home        Home            `json:"home"`
}

// Result is what came of a call.
type Result struct {
	Text   string          // as the model reads it
	Error  bool            // the call did not do what was asked
	Why    Failure         // of an error; "" where nothing more is known
	Output json.RawMessage // for programs: {"success": …} or {"error": …}
	Images []Image
}

// Failure is a kind of reason for which a call fails.
type Failure string

// The failures, by the names that hooks have for them.
const (
	Timeout          Failure = "timeout"
	PermissionDenied Failure = "permission_denied"
)

// Image is a picture that goes with a result.
type Image struct {
	MediaType string
	Data      []byte
}

var catalogue = sync.OnceValue(func() []Spec {
	var specs []Spec
	if err := json.Unmarshal(catalogueJSON, &specs); err != nil {
		panic(fmt.Sprintf("tool: catalogue.json: %v", err)) // embedded: any test finds it
	}
	return specs
})

// Catalogue returns every tool, in the order in which models are told of them.
// The caller must not change it.
func Catalogue() []Spec { return catalogue() }

// Lookup returns the tool of that name.
func Lookup(name string) (Spec, bool) {
	for _, s := range catalogue() {
		if s.Name == name {
			return s, true
		}
	}
	return Spec{}, false
}

// Digest names this catalogue: the SHA-256 of its bytes, in hex.
func Digest() string {
	sum := sha256.Sum256(catalogueJSON)
	return hex.EncodeToString(sum[:])
}

// ErrorOutput is the Output of a call that failed.
func ErrorOutput(message string) json.RawMessage {
	b, _ := json.Marshal(map[string]any{"error": map[string]string{"message": message}}) // strings always marshal
	return b
}

// Failed is the result of a call that did not do what was asked.
func Failed(format string, args ...any) Result {
	msg := fmt.Sprintf(format, args...)
	return Result{Text: msg, Error: true, Output: ErrorOutput(msg)}
}
