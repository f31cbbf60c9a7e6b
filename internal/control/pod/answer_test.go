package pod

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aloft/internal/control/machinerpc"
	"aloft/internal/redact"
	"aloft/internal/wire/podv1"
)

// FuzzAnswers has a machine reply with arbitrary data. No secret may get
// through, and the client may keep only bounded, valid text with plausible
// times.
func FuzzAnswers(f *testing.F) {
	const value = "glpat-a-very-secret-token"
	for _, m := range []proto.Message{
		&podv1.BootStep{Name: value, DurationMs: 1 << 62, State: podv1.BootStep_STATE_FAILED, Code: value, Detail: strings.Repeat("x", 1<<16)},
		&podv1.BootReady{BootId: value, Notes: make([]string, 1000), Others: []*podv1.CheckedOut{{Branch: value}}},
	} {
		wire, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	by := redact.New(map[string]string{"k": value})
	f.Fuzz(func(t *testing.T, wire []byte) {
		text := func(s string, most int) {
			t.Helper()
			if len(s) > most || !utf8.ValidString(s) || strings.Contains(s, value) {
				t.Errorf("%d bytes of %.100q", len(s), s)
			}
		}
		var step podv1.BootStep
		if proto.Unmarshal(wire, &step) == nil {
			redacted(by, &step)
			s := stepOf(&step)
			text(s.Name, maxWord)
			text(s.Detail, maxDetail)
			text(s.Code, maxWord)
			if s.Duration < 0 || s.Duration > machinerpc.MaxDuration {
				t.Errorf("it took %s", s.Duration)
			}
		}
		var ready podv1.BootReady
		if proto.Unmarshal(wire, &ready) == nil {
			redacted(by, &ready)
			if r, err := readyOf(&ready, len(ready.GetOthers())); err == nil {
				text(r.BootID+r.Branch, 2*maxWord)
				if len(r.Notes) > maxNotes {
					t.Errorf("%d notes", len(r.Notes))
				}
			}
		}
	})
}

// redacted redacts a message in the same way as a client.
func redacted[T any](by *redact.Redactor, m *T) {
	_, _ = machinerpc.Redact(func() *redact.Redactor { return by }).WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
		return connect.NewResponse(m), nil
	})(context.Background(), nil)
}
