package execd

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"aloft/internal/wire/agentv1"
)

// TestRegistry checks that every number in the registry has typed arguments and
// a result that can be an error, and that the entry of a tool that machines do
// not run says what running it would need.
func TestRegistry(t *testing.T) {
	all := new(agentv1.ToolCall).ProtoReflect().Descriptor().Oneofs().ByName("tool").Fields()
	// 36 tools have numbers that existing clients know. ReportFindings, UpdateMemory and
	// ReloadAgentSkills are Aloft's own.
	if all.Len() != 39 {
		t.Errorf("the registry has %d tools, want 39", all.Len())
	}
	for i := range all.Len() {
		field := all.Get(i)
		t.Run(string(field.Name()), func(t *testing.T) {
			call := new(agentv1.ToolCall)
			call.ProtoReflect().Mutable(field)
			answer := failed(call, "no")
			if result := resultError(answer); result != "no" {
				t.Errorf("its result cannot be an error: %v", answer)
			}
			_, err := toolName(call)
			if err == nil {
				t.Fatal("an empty call names a tool")
			}
			needs, _ := proto.GetExtension(field.Message().Options(), agentv1.E_Needs).(string)
			offered := strings.HasSuffix(err.Error(), "has no arguments")
			if !offered && !strings.Contains(err.Error(), "not available: needs "+needs) || !offered && needs == "" {
				t.Errorf("%v (needs %q)", err, needs)
			}
		})
	}
}

func resultError(call *agentv1.ToolCall) string {
	of := call.ProtoReflect().Get(variantOf(call)).Message()
	field := of.Descriptor().Fields().ByName("result")
	if field == nil {
		return ""
	}
	result := of.Get(field).Message()
	why := result.Get(result.Descriptor().Fields().ByName("error")).Message()
	return why.Get(why.Descriptor().Fields().ByName("message")).String()
}
