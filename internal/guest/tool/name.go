package tool

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"aloft/internal/wire/agentv1"
)

// NameOf returns the catalogue's name of the tool that a call is for. It
// returns "" if the call has no arguments of a tool in the catalogue.
func NameOf(call *agentv1.ToolCall) string {
	m := call.ProtoReflect()
	which := m.WhichOneof(m.Descriptor().Oneofs().ByName("tool"))
	if which == nil {
		return ""
	}
	name := ""
	m.Get(which).Message().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if field.Kind() == protoreflect.MessageKind && !field.IsList() && !field.IsMap() {
			options, _ := proto.GetExtension(field.Message().Options(), agentv1.E_Tool).(*agentv1.ToolOptions)
			name = options.GetName()
		}
		return name == ""
	})
	return name
}
