package execd

import (
	"context"
	"errors"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"aloft/internal/fault"
	"aloft/internal/guest/tool"
	"aloft/internal/redact"
	"aloft/internal/wire/agentv1"
)

// secretNames are the variables that name, separated by commas, the variables
// whose values are secrets.
var secretNames = []string{"CLOUD_AGENT_INJECTED_SECRET_NAMES", "CURSOR_AGENT_INJECTED_SECRET_NAMES"}

// Secrets are the values that do not leave the machine: those that the
// environment names. Its methods are safe for concurrent use, and a nil Secrets
// has none.
//
// What is read for an editor (ReadTextFile, ReadBinaryFile) goes out as it is,
// since it would be written back; and files in the machine, the output that is
// spilled to one included, stay as they are.
type Secrets struct {
	current atomic.Pointer[redact.Redactor]

	mu     sync.Mutex
	names  map[string]struct{}
	values map[string]string // by their names, and by name and number once they have changed
	older  int
}

// NewSecrets reads the secrets from the environment.
func NewSecrets(getenv func(string) string) *Secrets {
	s := &Secrets{names: map[string]struct{}{}, values: map[string]string{}}
	set := map[string]string{}
	for _, list := range secretNames {
		set[list] = getenv(list)
		for name := range namesIn(set[list]) {
			set[name] = getenv(name)
		}
	}
	s.update(set)
	return s
}

func namesIn(list string) map[string]struct{} {
	names := map[string]struct{}{}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names[name] = struct{}{}
		}
	}
	return names
}

// update takes up variables that are set from now on. A value that was a
// secret stays one: it may stand in a file or a process.
func (s *Secrets) update(set map[string]string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range secretNames {
		maps.Copy(s.names, namesIn(set[list]))
	}
	changed := false
	for name := range s.names {
		value, given := set[name]
		old, known := s.values[name]
		if !given || known && old == value {
			continue
		}
		if known {
			s.older++
			s.values[name+" "+strings.Repeat("'", s.older)] = old // no variable has such a name
		}
		s.values[name] = value
		changed = true
	}
	if changed {
		s.current.Store(redact.New(s.values))
	}
}

// Redactor returns what finds the secrets that there are now.
func (s *Secrets) Redactor() *redact.Redactor {
	if s == nil {
		return nil
	}
	return s.current.Load()
}

// clean returns text without the secrets that there are now.
func (s *Secrets) clean(text string) string { return s.Redactor().String(text) }

// Writer returns a writer to w for a log: it takes out the secrets that there
// are at each write.
func (s *Secrets) Writer(w io.Writer) io.Writer {
	if s == nil {
		return w
	}
	return logWriter{s, w}
}

type logWriter struct {
	secrets *Secrets
	to      io.Writer
}

func (l logWriter) Write(p []byte) (int, error) { return l.secrets.Redactor().Writer(l.to).Write(p) }

// redacted takes secrets out of whatever the tool says.
func redacted(t tool.Tool, s *Secrets) tool.Tool {
	if s == nil {
		return t
	}
	run := t.Run
	t.Run = func(ctx context.Context, call *agentv1.ToolCall, emit tool.Emit) tool.Outcome {
		r := s.Redactor()
		if r.Empty() {
			return run(ctx, call, emit)
		}
		d := &deltas{of: r, emit: emit, streams: map[protoreflect.FullName]*deltaStream{}}
		out := run(ctx, call, d.take)
		d.flush()
		out.Text = s.clean(out.Text)
		if out.Call != nil {
			redact.Strings(out.Call.ProtoReflect(), s.clean)
		}
		return out
	}
	return t
}

// deltas redacts the parts of one call's result. Those of one field are one
// text: a secret that is split between two of them is found.
type deltas struct {
	of   *redact.Redactor
	emit tool.Emit

	mu      sync.Mutex
	streams map[protoreflect.FullName]*deltaStream // by field
	quiet   *time.Timer                            // runs while something is held back; nil before
	over    bool
}

// deltaStream is the text of one field, and a delta that has nothing else.
type deltaStream struct {
	text *redact.Stream
	of   func(text string) *agentv1.ToolCallDelta
}

func (d *deltas) take(delta *agentv1.ToolCallDelta) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := delta.ProtoReflect()
	variant := m.WhichOneof(m.Descriptor().Oneofs().ByName("delta"))
	if variant == nil {
		return
	}
	says := false
	part := m.Mutable(variant).Message()
	part.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Kind() != protoreflect.StringKind || field.IsList() || field.IsMap() {
			says = true
			return true
		}
		s := d.streams[field.FullName()]
		if s == nil {
			s = &deltaStream{d.of.Stream(), func(text string) *agentv1.ToolCallDelta {
				rest := new(agentv1.ToolCallDelta)
				rest.ProtoReflect().Mutable(variant).Message().Set(field, protoreflect.ValueOfString(text))
				return rest
			}}
			d.streams[field.FullName()] = s
		}
		text := string(s.text.Next([]byte(value.String())))
		part.Set(field, protoreflect.ValueOfString(text))
		says = says || text != ""
		return true
	})
	if says {
		d.emit(delta)
	}
	for _, s := range d.streams {
		if s.text.Holds() {
			d.wait()
		}
	}
}

// wait has idle called unless more comes. d.mu is held.
func (d *deltas) wait() {
	if d.quiet == nil {
		d.quiet = time.AfterFunc(redact.Quiet, d.idle)
		return
	}
	d.quiet.Reset(redact.Quiet)
}

// idle sends what nobody should wait for.
func (d *deltas) idle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return
	}
	for _, s := range d.streams {
		if text := s.text.Idle(); len(text) > 0 {
			d.emit(s.of(string(text)))
		}
	}
}

// flush sends what was held back.
func (d *deltas) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.quiet != nil {
		d.quiet.Stop()
	}
	for _, s := range d.streams {
		if rest := s.text.Flush(); len(rest) > 0 {
			d.emit(s.of(string(rest)))
		}
	}
	clear(d.streams)
}

// leaving takes secrets out of what answers a request beside a call's result:
// every error, the diff, which nobody writes back, and what terminals show.
type leaving struct{ secrets *Secrets }

// WrapUnary implements [connect.Interceptor].
func (l leaving) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		if err != nil {
			return nil, l.fault(err)
		}
		switch m := res.Any().(type) {
		case *agentv1.GetDiffResponse:
			m.Diff = l.secrets.clean(m.GetDiff())
		case *agentv1.ReadTerminalResponse:
			m.Text = l.secrets.Redactor().Screen(m.GetText())
		case *agentv1.ListTerminalsResponse:
			redact.Strings(m.ProtoReflect(), l.secrets.clean)
		}
		return res, nil
	}
}

// WrapStreamingClient implements [connect.Interceptor]; there is no client here.
func (leaving) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (l leaving) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := next(ctx, conn); err != nil {
			return l.fault(err)
		}
		return nil
	}
}

func (l leaving) fault(err error) error {
	e, ok := errors.AsType[*connect.Error](err)
	if !ok || l.secrets.Redactor().Empty() {
		return err
	}
	if cause, ok := errors.AsType[*fault.Error](e); ok {
		return connect.NewError(e.Code(), &fault.Error{
			Message: l.secrets.clean(cause.Message), Advice: l.secrets.clean(cause.Advice),
		})
	}
	return connect.NewError(e.Code(), errors.New(l.secrets.clean(e.Message())))
}
