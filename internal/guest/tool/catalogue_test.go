package tool_test

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"aloft/internal/guest/mcp"
	"aloft/internal/guest/screen"
	"aloft/internal/guest/tool"
	"aloft/internal/guest/tool/tooltest"
	"aloft/internal/guest/video"
	"aloft/internal/guest/web"
	catalogue "aloft/internal/tool"
	"aloft/internal/wire/agentv1"
)

// TestSchemaDecodes checks that protojson accepts every property and every enum
// value that the schema describes to the model, and keeps it.
func TestSchemaDecodes(t *testing.T) {
	for _, spec := range catalogue.Catalogue() {
		t.Run(spec.Name, func(t *testing.T) {
			args := message(t, spec.Name)
			var s struct {
				Properties map[string]json.RawMessage
			}
			if err := json.Unmarshal(spec.Schema, &s); err != nil {
				t.Fatal(err)
			}
			for name, raw := range s.Properties {
				if field := args.Descriptor().Fields().ByName(protoreflect.Name(name)); field != nil && proto.GetExtension(field.Options(), agentv1.E_AsText).(bool) {
					continue // a property that only the control plane reads
				}
				for _, value := range examples(t, raw) {
					text, err := json.Marshal(map[string]any{name: value})
					if err != nil {
						t.Fatal(err)
					}
					got := args.New().Interface()
					if err := protojson.Unmarshal(text, got); err != nil {
						t.Errorf("%s: %v", text, err)
					}
				}
			}
		})
	}
}

// examples returns values that a schema allows.
func examples(t *testing.T, raw json.RawMessage) []any {
	t.Helper()
	var s struct {
		Type       string
		Enum       []any
		Items      json.RawMessage
		Properties map[string]json.RawMessage
		Most       int `json:"maxProperties"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	switch {
	case s.Enum != nil:
		return s.Enum
	case s.Type == "string":
		return []any{"", "text"}
	case s.Type == "boolean":
		return []any{true, false}
	case s.Type == "integer":
		return []any{0, 1, -1}
	case s.Type == "array":
		return []any{[]any{}, examples(t, s.Items)}
	case s.Type == "object" && s.Most == 1:
		var each []any
		for name, p := range s.Properties {
			each = append(each, map[string]any{name: examples(t, p)[0]})
		}
		return each
	case s.Type == "object":
		object := map[string]any{}
		for name, p := range s.Properties {
			object[name] = examples(t, p)[0]
		}
		return []any{object}
	}
	t.Fatalf("no example for %s", raw)
	return nil
}

// message returns the type of a tool's arguments.
func message(t *testing.T, name string) protoreflect.MessageType {
	t.Helper()
	var found protoreflect.MessageType
	protoregistry.GlobalTypes.RangeMessages(func(m protoreflect.MessageType) bool {
		o, _ := proto.GetExtension(m.Descriptor().Options(), agentv1.E_Tool).(*agentv1.ToolOptions)
		if o.GetName() == name {
			found = m
		}
		return found == nil
	})
	if found == nil {
		t.Fatalf("no message is marked as the tool %s", name)
	}
	return found
}

// TestNameOf checks that this package implements every tool of the catalogue
// that acts in the machine.
func TestNameOf(t *testing.T) {
	for _, spec := range catalogue.Catalogue() {
		if spec.Home == catalogue.Guest {
			call := tooltest.Call(t, spec.Name, "{}")
			if got := tool.NameOf(call); got != spec.Name {
				t.Errorf("%s is named %q", spec.Name, got)
			}
		}
	}
	if got := tool.NameOf(&agentv1.ToolCall{}); got != "" {
		t.Errorf("an empty call is named %q", got)
	}
	if got := tool.NameOf(nil); got != "" {
		t.Errorf("no call is named %q", got)
	}
}

// TestCallsWithoutArguments checks that calls without arguments return an error
// and do not panic.
func TestCallsWithoutArguments(t *testing.T) {
	ws := tool.Workspace{Dir: t.TempDir()}
	bash := session(t, ws.Dir)
	servers := mcp.New(mcp.Config{Workspace: ws.Dir})
	for _, hand := range []tool.Tool{tool.Read(ws), tool.Write(ws), tool.StrReplace(ws), tool.Delete(ws), tool.Glob(ws), tool.Grep(ws), tool.Ls(ws), tool.EditNotebook(ws), tool.Fetch(web.New(web.Public)), tool.WebFetch(ws, web.New(web.Public)), tool.Shell(bash, nil), tool.Await(bash), tool.WriteShellStdin(bash), tool.SemSearch(ws, index(t, ws)), tool.ReadLints(ws, linters(t, ws)), tool.CallMcpTool(servers), tool.ListMcpResources(servers), tool.FetchMcpResource(ws, servers), tool.McpAuth(servers), tool.RecordScreen(video.New(video.Config{})), tool.ComputerUse(screen.NewHand(""))} {
		for _, call := range []*agentv1.ToolCall{nil, {}, {Tool: &agentv1.ToolCall_EditToolCall{}}, {Tool: &agentv1.ToolCall_ShellToolCall{}}} {
			out := hand.Run(t.Context(), call, func(*agentv1.ToolCallDelta) {})
			tooltest.Check(t, hand.Name, out)
			if !out.Error {
				t.Errorf("%s: %q is no error", hand.Name, out.Text)
			}
		}
	}
}
