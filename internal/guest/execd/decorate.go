package execd

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"aloft/internal/guest/tool"
	"aloft/internal/text"
	"aloft/internal/wire/agentv1"
)

// Limits of a result, in bytes. They are the limits of the control plane, which
// would reject a larger result.
const (
	maxText        = 256 << 10
	maxField       = 256 << 10 // one string of the tool's message
	maxResult      = 2 << 20   // the tool's message
	maxPictures    = 5
	maxPicture     = 5 << 20
	cutNote        = "\n[truncated: the result was too long]"
	maxListEntries = 10_000
)

// guarded converts a panic of the tool into an error for the model.
func guarded(t tool.Tool, log *slog.Logger) tool.Tool {
	run := t.Run
	t.Run = func(ctx context.Context, call *agentv1.ToolCall, emit tool.Emit) (out tool.Outcome) {
		defer func() {
			if what := recover(); what != nil {
				log.ErrorContext(ctx, "tool panicked", "tool", t.Name, "panic", what, "stack", string(debug.Stack()))
				message := "the tool " + t.Name + " crashed; the call may have taken effect in part"
				out = tool.Outcome{Call: failed(call, message), Text: message, Error: true}
			}
		}()
		return run(ctx, call, emit)
	}
	return t
}

// bounded makes a tool's output acceptable to the control plane: valid UTF-8,
// because a message cannot be encoded otherwise, and within the size limits.
func bounded(t tool.Tool) tool.Tool {
	run := t.Run
	t.Run = func(ctx context.Context, call *agentv1.ToolCall, emit tool.Emit) tool.Outcome {
		out := run(ctx, call, func(delta *agentv1.ToolCallDelta) {
			clean(delta.ProtoReflect(), maxField)
			emit(delta)
		})
		out.Text = strings.ToValidUTF8(out.Text, "\uFFFD")
		if len(out.Text) > maxText {
			out.Text = text.Head(out.Text, maxText-len(cutNote)) + cutNote
		}
		if out.Call != nil {
			clean(out.Call.ProtoReflect(), maxField)
			for limit := maxField / 2; proto.Size(out.Call) > maxResult && limit > 0; limit /= 2 {
				clean(out.Call.ProtoReflect(), limit)
			}
		}
		var pictures []*agentv1.Picture
		for _, p := range out.Pictures {
			if len(pictures) < maxPictures && len(p.GetData()) <= maxPicture {
				clean(p.ProtoReflect(), maxReason)
				pictures = append(pictures, p)
			}
		}
		if len(pictures) < len(out.Pictures) {
			out.Text += "\n[some images were left out: there were too many, or they were too large]"
		}
		out.Pictures = pictures
		return out
	}
	return t
}

// clean makes every string of m valid UTF-8 and at most limit bytes long, and
// truncates its lists.
func clean(m protoreflect.Message, limit int) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap(): // no tool's result has a map
		case field.IsList():
			list := value.List()
			if most := min(maxListEntries, limit); list.Len() > most {
				list.Truncate(most)
			}
			for i := range list.Len() {
				switch field.Kind() {
				case protoreflect.StringKind:
					list.Set(i, protoreflect.ValueOfString(valid(list.Get(i).String(), limit)))
				case protoreflect.MessageKind:
					clean(list.Get(i).Message(), limit)
				}
			}
		case field.Kind() == protoreflect.StringKind:
			if s := value.String(); len(s) > limit || !utf8.ValidString(s) {
				m.Set(field, protoreflect.ValueOfString(valid(s, limit)))
			}
		case field.Kind() == protoreflect.MessageKind:
			clean(value.Message(), limit)
		}
		return true
	})
}

func valid(s string, limit int) string { return text.Head(strings.ToValidUTF8(s, "\uFFFD"), limit) }
