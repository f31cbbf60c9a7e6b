package execclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
)

// maxArgs is the maximum size of a call's arguments, in bytes.
const maxArgs = 8 << 20

// variant says which fields hold a tool's arguments.
type variant struct {
	call protoreflect.FieldDescriptor // field of ToolCall, such as shell_tool_call
	args protoreflect.FieldDescriptor // field of that message: args
}

// variants finds each tool's fields through the options in the .proto files, so
// that a new tool needs no change here.
var variants = sync.OnceValue(func() map[string]variant {
	found := make(map[string]variant)
	tools := new(agentv1.ToolCall).ProtoReflect().Descriptor().Oneofs().ByName("tool").Fields()
	for i := range tools.Len() {
		fields := tools.Get(i).Message().Fields()
		for j := range fields.Len() {
			field := fields.Get(j)
			if field.Kind() != protoreflect.MessageKind {
				continue
			}
			options, _ := proto.GetExtension(field.Message().Options(), agentv1.E_Tool).(*agentv1.ToolOptions)
			if name := options.GetName(); name != "" {
				found[name] = variant{tools.Get(i), field}
			}
		}
	}
	return found
})

// EncodeCall converts a model's call to its message. The error is a fault of
// kind Invalid with a text for the model; its Field is the invalid argument. An
// argument that is null counts as missing.
func EncodeCall(c conversation.ToolCall) (*agentv1.ToolCall, error) {
	to, ok := variants()[c.Name]
	if !ok {
		return nil, fault.Invalid("there is no tool %q; there are %s", bound(c.Name, maxID),
			strings.Join(slices.Sorted(maps.Keys(variants())), ", "))
	}
	given, err := object(c)
	if err != nil {
		return nil, err
	}
	call := new(agentv1.ToolCall)
	args := call.ProtoReflect().Mutable(to.call).Message().Mutable(to.args).Message()
	fields := offered(args.Descriptor())
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field, ok := fields[name]
		if !ok {
			return nil, fault.Invalid("%s has no argument %q; it takes %s", c.Name, bound(name, maxID),
				strings.Join(inOrder(args.Descriptor()), ", ")).At(bound(name, maxID))
		}
		if err := decode(args, field, name, given[name]); err != nil {
			return nil, fault.Invalid("%s: the argument %s %v", c.Name, name, err).At(name)
		}
	}
	for _, name := range inOrder(args.Descriptor()) {
		if value, there := given[name]; isRequired(fields[name]) && (!there || isNull(value)) {
			return nil, fault.Invalid("%s: the argument %s is missing", c.Name, name).At(name)
		}
	}
	for name, value := range map[protoreflect.Name]string{"tool_call_id": c.ID, "shell": c.Shell} {
		if field := args.Descriptor().Fields().ByName(name); field != nil && value != "" {
			args.Set(field, protoreflect.ValueOfString(value))
		}
	}
	if field := args.Descriptor().Fields().ByName("payload"); field != nil && len(c.Payload) > 0 {
		args.Set(field, protoreflect.ValueOfBytes(c.Payload))
	}
	if field := args.Descriptor().Fields().ByName("guarded"); field != nil && c.Guarded {
		args.Set(field, protoreflect.ValueOfBool(true))
	}
	return call, nil
}

// object splits the arguments by name.
func object(c conversation.ToolCall) (map[string]json.RawMessage, error) {
	if len(c.Args) > maxArgs {
		return nil, fault.Invalid("%s: the arguments are longer than %d MiB", c.Name, maxArgs>>20)
	}
	text := bytes.TrimSpace(c.Args)
	if len(text) == 0 || isNull(text) {
		return nil, nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return nil, fault.Invalid("%s: the arguments are not a JSON object: %v", c.Name, err)
	}
	return given, nil
}

// offered returns the fields that a model may set, by their name in the
// catalogue.
func offered(args protoreflect.MessageDescriptor) map[string]protoreflect.FieldDescriptor {
	fields := make(map[string]protoreflect.FieldDescriptor)
	for i := range args.Fields().Len() {
		field := args.Fields().Get(i)
		if internal, _ := proto.GetExtension(field.Options(), agentv1.E_Internal).(bool); !internal {
			fields[modelName(field)] = field
		}
	}
	return fields
}

func inOrder(args protoreflect.MessageDescriptor) []string {
	var names []string
	fields := offered(args)
	for i := range args.Fields().Len() {
		if name := modelName(args.Fields().Get(i)); fields[name] != nil {
			names = append(names, name)
		}
	}
	return names
}

// modelName returns the field's name in the catalogue: its json_name if the
// .proto sets one, otherwise its own name. A default json_name is camel case
// and contains no underscore or hyphen.
func modelName(field protoreflect.FieldDescriptor) string {
	if strings.ContainsAny(field.JSONName(), "-_") {
		return field.JSONName()
	}
	return string(field.Name())
}

func isRequired(field protoreflect.FieldDescriptor) bool {
	required, _ := proto.GetExtension(field.Options(), agentv1.E_Required).(bool)
	return required
}

func isNull(text []byte) bool { return string(bytes.TrimSpace(text)) == "null" }

// place matches the position in protojson's error messages, which would not
// help the model.
var place = regexp.MustCompile(`^proto:\s*|\(line \d+:\d+\):?\s*|\x{a0}`)

// decode sets one field from its JSON. The error continues a sentence that
// starts with the argument's name. Fields are decoded one by one, since
// protojson does not always name the invalid field.
func decode(args protoreflect.Message, field protoreflect.FieldDescriptor, name string, text json.RawMessage) error {
	if err := shape(field, text); err != nil {
		return err
	}
	key, err := json.Marshal(name)
	if err != nil {
		return err
	}
	one := args.New()
	err = protojson.Unmarshal(slices.Concat([]byte("{"), key, []byte(":"), text, []byte("}")), one.Interface())
	if err != nil {
		return fmt.Errorf("must be %s: %s", kind(field), bound(strings.TrimSpace(place.ReplaceAllString(err.Error(), "")), 300))
	}
	proto.Merge(args.Interface(), one.Interface())
	return nil
}

// shape rejects a number for an enum, which protojson accepts but the schema
// does not.
func shape(field protoreflect.FieldDescriptor, text json.RawMessage) error {
	if field.Kind() == protoreflect.EnumKind && !isNull(text) && !bytes.HasPrefix(bytes.TrimSpace(text), []byte(`"`)) {
		return fmt.Errorf("must be %s", kind(field))
	}
	return nil
}

// kind describes a field's type for the model.
func kind(field protoreflect.FieldDescriptor) string {
	if field.IsList() {
		return "a list"
	}
	switch field.Kind() {
	case protoreflect.StringKind:
		return "a string"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return "a whole number"
	case protoreflect.EnumKind:
		var names []string
		for i := range field.Enum().Values().Len() {
			names = append(names, string(field.Enum().Values().Get(i).Name()))
		}
		return "one of " + strings.Join(names, ", ")
	}
	return "an object"
}

// outside is the policy for running without a sandbox.
var outside = &agentv1.SandboxPolicy{Type: agentv1.SandboxPolicy_TYPE_INSECURE_NONE, NetworkAccess: true}

// confine sets the sandbox policy of a call.
func confine(call *agentv1.ToolCall, policy *agentv1.SandboxPolicy) {
	if args := call.GetShellToolCall().GetArgs(); args != nil {
		args.RequestedSandboxPolicy = policy
	}
	if args := call.GetGrepToolCall().GetArgs(); args != nil {
		args.SandboxPolicy = policy
	}
}

// guardLine adds a guard to a shell command. The machine runs the command
// outside of the sandbox unless the guard's check fails. The call's policy is
// that of the sandbox.
func guardLine(call *agentv1.ToolCall, g *conversation.Guard) {
	args := call.GetShellToolCall().GetArgs()
	if args == nil || g == nil {
		return
	}
	args.Guard = &agentv1.ShellGuard{SandboxPolicy: args.GetRequestedSandboxPolicy(), Git: g.Git, Folders: g.Folders, Elsewhere: g.Elsewhere, Refuse: g.Refuse}
	args.RequestedSandboxPolicy = outside
}
