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
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"aloft/internal/fault"
	"aloft/internal/guest/tool"
	"aloft/internal/redact"
	"aloft/internal/wire/agentv1"
)

// secretNames are the environment variables that list the names of secret
// variables, separated by commas.
var secretNames = []string{"CLOUD_AGENT_INJECTED_SECRET_NAMES", "CURSOR_AGENT_INJECTED_SECRET_NAMES"}

// Secrets are the values to redact from everything that leaves the machine: the
// values of the variables that the environment marks as secret. Its methods are
// safe for concurrent use. A nil Secrets has no values.
//
// Files read for an editor (ReadTextFile, ReadBinaryFile) are not redacted,
// because the editor would write them back. Files in the machine, including
// spilled output, are not redacted either.
type Secrets struct {
	current atomic.Pointer[redact.Redactor]

	mu     sync.Mutex
	names  map[string]struct{}
	values map[string]string // by variable name; a replaced value is kept under its name and a number
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

// update adds variables that are set from now on. Old values of a secret stay
// secret: files and processes may still have them.
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
			s.values[name+" "+strings.Repeat("'", s.older)] = old // not a valid variable name, so it cannot clash
		}
		s.values[name] = value
		changed = true
	}
	if changed {
		s.current.Store(redact.New(s.values))
	}
}

// Redactor returns a redactor for the current secrets.
func (s *Secrets) Redactor() *redact.Redactor {
	if s == nil {
		return nil
	}
	return s.current.Load()
}

// clean returns text with the current secrets redacted.
func (s *Secrets) clean(text string) string { return s.Redactor().String(text) }

// Writer returns a writer to w for a log. It redacts the secrets that are
// current at each write.
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

// redacted redacts secrets from everything that the tool returns.
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

// deltas redacts the deltas of one call. It treats the deltas of one field as
// one text, so that it finds a secret that is split between two of them.
type deltas struct {
	of   *redact.Redactor
	emit tool.Emit

	mu      sync.Mutex
	streams map[protoreflect.FullName]*deltaStream // by field
	quiet   *time.Timer                            // runs while text is held back; nil before that
	over    bool
}

// deltaStream is the text of one field. of returns a delta that contains only the given
// text.
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

// wait schedules idle, unless more text arrives first. d.mu must be held.
func (d *deltas) wait() {
	if d.quiet == nil {
		d.quiet = time.AfterFunc(redact.Quiet, d.idle)
		return
	}
	d.quiet.Reset(redact.Quiet)
}

// idle sends delayed text after a pause in the output.
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

// flush sends all delayed text.
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

// outgoing redacts responses other than results of calls: all errors, the diff
// (which nobody writes back), and terminal contents.
type outgoing struct{ secrets *Secrets }

// WrapUnary implements [connect.Interceptor].
func (l outgoing) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
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
		case *agentv1.ListTerminalsResponse, *agentv1.ReadRulesResponse:
			redact.Strings(m.(proto.Message).ProtoReflect(), l.secrets.clean)
		}
		return res, nil
	}
}

// WrapStreamingClient implements [connect.Interceptor]; there is no client here.
func (outgoing) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (l outgoing) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := next(ctx, conn); err != nil {
			return l.fault(err)
		}
		return nil
	}
}

func (l outgoing) fault(err error) error {
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
