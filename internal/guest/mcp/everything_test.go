package mcp_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/mcp"
	"aloft/internal/need"
)

// TestEverything uses the public test server of MCP, a program of Node, over its
// standard input and output.
func TestEverything(t *testing.T) {
	node := need.Command(t, "node")
	script, err := filepath.Abs("../../../hack/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "the test server of MCP", script)
	m := manager(t)
	m.Use([]mcp.Server{{Name: "everything", Type: mcp.Stdio, Command: node, Args: []string{script, "stdio"}, Source: mcp.Project}}, nil, "")
	l := only(t, m)
	if l.State != mcp.Ready || l.LeftOut != 0 {
		t.Fatalf("%s %s, %d tools left out: %s", l.State, l.Error, l.LeftOut, l.Why)
	}
	listed := map[string]bool{}
	for _, tool := range l.Tools {
		listed[tool.Name] = true
	}
	for tool, c := range map[string]struct {
		args, want string
		failed     bool
	}{
		"echo":                           {`{"message": "hello"}`, "Echo: hello", false},
		"get-sum":                        {`{"a": 2, "b": 40}`, "42", false},
		"get-tiny-image":                 {`{}`, "MCP logo", false},
		"get-annotated-message":          {`{"messageType": "error"}`, "Error: Operation failed", false},
		"get-structured-content":         {`{"location": "New York"}`, "temperature", false},
		"get-resource-links":             {`{"count": 2}`, "resource demo://resource/dynamic/text/2 of the server everything", false},
		"get-resource-reference":         {`{"resourceType": "Text", "resourceId": 1}`, "demo://resource/dynamic/text/1", false},
		"get-roots-list":                 {`{}`, "workspace", false},
		"trigger-long-running-operation": {`{"duration": 1, "steps": 2}`, "Long running operation completed", false},
	} {
		if !listed[tool] {
			t.Errorf("the tool %s is not listed", tool)
			continue
		}
		r := call(t, m, "everything", tool, c.args)
		if text := r.Tool().Text; r.Tool().Error != c.failed || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", tool, text, c.want)
		}
	}
	// The client offers no sampling and no elicitation, so the server does not list
	// the tools that need these.
	for _, tool := range []string{"trigger-sampling-request", "trigger-elicitation-request"} {
		if listed[tool] {
			t.Errorf("the tool %s is listed", tool)
		}
	}
	if r := call(t, m, "everything", "get-sum", `{"a": "two"}`); !r.Tool().Error {
		t.Errorf("wrong arguments: %q", r.Tool().Text)
	}
	if _, err := m.Call(t.Context(), "everything", "no-such-tool", json.RawMessage(`{}`)); err == nil {
		t.Error("a call of an unknown tool succeeds")
	}
	all, err := m.Resources(t.Context(), "everything")
	if err != nil || len(all) == 0 {
		t.Fatalf("%d resources, %v", len(all), err)
	}
	if parts, err := m.Read(t.Context(), "everything", all[0].URI); err != nil || len(parts) == 0 {
		t.Errorf("%s: %d parts, %v", all[0].URI, len(parts), err)
	}
}
