package execclient

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"aloft/internal/conversation"
	"aloft/internal/tool"
	"aloft/internal/wire/agentv1"
)

// Limits of a result, in bytes.
const (
	maxText     = 256 << 10
	maxJSON     = 512 << 10
	maxPictures = 5
	maxPicture  = 5 << 20
)

// pictureTypes are the image types that models accept.
var pictureTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// answerTo returns the machine's answer to a call. It drops the result of
// another tool. If the machine claims that the call never started, it returns
// an error result.
func answerTo(sent *agentv1.ToolCall, done *agentv1.ExecCompleted) *agentv1.ExecCompleted {
	toolOf := func(call *agentv1.ToolCall) protoreflect.FieldDescriptor {
		m := call.ProtoReflect()
		return m.WhichOneof(m.Descriptor().Oneofs().ByName("tool"))
	}
	switch {
	case done.GetNeverStarted():
		return &agentv1.ExecCompleted{IsError: true, Text: "The machine did not run this call, and gave no reason."}
	case done.GetToolCall().GetTruncatedToolCall() != nil: // the text of a long result, which any tool may have
	case toolOf(done.GetToolCall()) != toolOf(sent):
		done = proto.CloneOf(done)
		done.ToolCall = nil
	}
	return done
}

// resultOf converts a machine's result of a call. It limits the size of the
// result.
func resultOf(done *agentv1.ExecCompleted) tool.Result {
	r := tool.Result{Text: bound(done.GetText(), maxText), Error: done.GetIsError()}
	if len(done.GetText()) > maxText {
		r.Text += "\n[truncated: the result was too long]"
	}
	for _, p := range done.GetPictures() {
		if len(r.Images) == maxPictures || len(p.GetData()) > maxPicture || !slices.Contains(pictureTypes, p.GetMediaType()) {
			r.Text += "\n[image omitted]"
			break
		}
		r.Images = append(r.Images, conversation.Image{MediaType: p.GetMediaType(), Data: p.GetData()})
	}
	switch done.GetFailure() {
	case agentv1.FailureKind_FAILURE_KIND_TIMEOUT:
		r.Why = tool.Timeout
	case agentv1.FailureKind_FAILURE_KIND_PERMISSION_DENIED:
		r.Why = tool.PermissionDenied
	}
	r.Output = output(done.GetToolCall())
	switch {
	case r.Output != nil:
	case r.Error:
		r.Output = tool.ErrorOutput(bound(r.Text, 64<<10))
	default:
		r.Output = json.RawMessage(`{"success":{}}`)
	}
	return r
}

// output returns the call's result message as JSON, or nil. It shortens strings
// and lists until the message is small enough. All fields are present, except
// optional ones.
func output(call *agentv1.ToolCall) json.RawMessage {
	m := call.ProtoReflect()
	which := m.WhichOneof(m.Descriptor().Oneofs().ByName("tool"))
	if which == nil {
		return nil
	}
	of := m.Get(which).Message()
	field := of.Descriptor().Fields().ByName("result")
	if field == nil || !of.Has(field) {
		return nil
	}
	result := of.Get(field).Message()
	if result.WhichOneof(result.Descriptor().Oneofs().Get(0)) == nil {
		return nil
	}
	result = proto.Clone(result.Interface()).ProtoReflect()
	result.SetUnknown(nil)
	for limit := maxJSON; limit > 0; limit /= 2 {
		if proto.Size(result.Interface()) <= maxJSON {
			text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(result.Interface())
			if err != nil {
				return nil
			}
			var compact bytes.Buffer // protojson randomizes its whitespace
			if err := json.Compact(&compact, text); err != nil {
				return nil
			}
			if compact.Len() <= maxJSON {
				return compact.Bytes()
			}
		}
		shrink(result, limit/2)
	}
	return nil
}

// shrink cuts every string of m to limit bytes, and every list to limit/16
// elements.
func shrink(m protoreflect.Message, limit int) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap(): // no tool's result has a map
		case field.IsList():
			list := value.List()
			list.Truncate(min(list.Len(), limit/16))
			for i := range list.Len() {
				switch field.Kind() {
				case protoreflect.StringKind:
					list.Set(i, protoreflect.ValueOfString(bound(list.Get(i).String(), limit)))
				case protoreflect.MessageKind:
					shrink(list.Get(i).Message(), limit)
				}
			}
		case field.Kind() == protoreflect.StringKind:
			m.Set(field, protoreflect.ValueOfString(bound(value.String(), limit)))
		case field.Kind() == protoreflect.MessageKind:
			shrink(value.Message(), limit)
		}
		return true
	})
}
