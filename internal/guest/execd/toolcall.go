package execd

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"aloft/internal/guest/tool"
	"aloft/internal/wire/agentv1"
)

// toolName returns the catalogue's name of the called tool, which is the one
// whose arguments are set. The error is for the model.
func toolName(asked *agentv1.ToolCall) (string, error) {
	variant := variantOf(asked)
	if variant == nil {
		return "", errors.New("the tool of this call is not available in this machine")
	}
	if name := tool.NameOf(asked); name != "" {
		return name, nil
	}
	fields := variant.Message().Fields()
	for i := range fields.Len() {
		if name := nameOfArgs(fields.Get(i)); name != "" {
			return "", fmt.Errorf("the call of %s has no arguments", name)
		}
	}
	return "", notAvailable(asked, string(variant.Name()))
}

// notAvailable returns an error that says what a missing tool needs.
func notAvailable(asked *agentv1.ToolCall, name string) error {
	needs, _ := proto.GetExtension(variantOf(asked).Message().Options(), agentv1.E_Needs).(string)
	if needs == "" {
		needs = "a newer exec-daemon"
	}
	return fmt.Errorf("%s is not available: needs %s", name, needs)
}

// variantOf returns the field of the tool that is set; nil if none is.
func variantOf(call *agentv1.ToolCall) protoreflect.FieldDescriptor {
	m := call.ProtoReflect()
	return m.WhichOneof(m.Descriptor().Oneofs().ByName("tool"))
}

// nameOfArgs returns the name of the tool whose arguments the field contains.
func nameOfArgs(field protoreflect.FieldDescriptor) string {
	if field.Kind() != protoreflect.MessageKind {
		return ""
	}
	options, _ := proto.GetExtension(field.Message().Options(), agentv1.E_Tool).(*agentv1.ToolOptions)
	return options.GetName()
}

// failed returns the tool's message without arguments and with an error as its
// result. It returns nil for a tool whose message has no error field.
func failed(asked *agentv1.ToolCall, message string) *agentv1.ToolCall {
	variant := variantOf(asked)
	if variant == nil {
		return nil
	}
	answer := new(agentv1.ToolCall)
	of := answer.ProtoReflect().Mutable(variant).Message()
	result := of.Descriptor().Fields().ByName("result")
	if result == nil {
		return answer
	}
	why := result.Message().Fields().ByName("error")
	if why == nil {
		return answer
	}
	words := why.Message().Fields().ByName("message") // a tool may have its own type of error
	if words == nil || words.Kind() != protoreflect.StringKind {
		return answer
	}
	of.Mutable(result).Message().Mutable(why).Message().Set(words, protoreflect.ValueOfString(message))
	return answer
}
