package execclient

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"aloft/internal/control/machinerpc"
	"aloft/internal/redact"
	"aloft/internal/wire/agentv1"
)

// FuzzAnswers has a machine reply with arbitrary data. No secret may get
// through, and the client may keep only bounded, valid text with plausible
// times.
func FuzzAnswers(f *testing.F) {
	const value = "glpat-a-very-secret-token"
	for _, m := range []proto.Message{
		&agentv1.RunHooksResponse{UpdatedInput: []byte(`{"a":1}`), Runs: []*agentv1.HookRun{{Command: value, DurationMs: -1}}, Warnings: make([]string, 1000)},
		&agentv1.ListTerminalsResponse{Terminals: []*agentv1.Terminal{{Name: value, Columns: 1 << 30, CreatedAt: &timestamppb.Timestamp{Seconds: 1 << 40}}}},
		&agentv1.ReadTerminalResponse{Text: value[:10] + "\n" + value[10:]},
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
		var hooks agentv1.RunHooksResponse
		if proto.Unmarshal(wire, &hooks) == nil {
			redacted(by, &hooks)
			o := hookOutcome(&hooks)
			text(o.UserMessage, maxHookWords)
			if len(o.Ran)+len(o.Warnings)+len(o.Present) > 3*maxHookRuns {
				t.Errorf("%d runs, %d warnings", len(o.Ran), len(o.Warnings))
			}
			for _, r := range o.Ran {
				text(r.Command+r.File, 2*maxDetail)
				if r.Took < 0 {
					t.Errorf("it took %s", r.Took)
				}
			}
		}
		var list agentv1.ListTerminalsResponse
		if proto.Unmarshal(wire, &list) == nil {
			redacted(by, &list)
			for _, of := range list.GetTerminals() {
				kept := terminalOf(of)
				text(kept.Name, maxWord)
				if _, err := json.Marshal(kept); err != nil { // marshaling fails for times outside of JSON's range
					t.Error(err)
				}
			}
		}
		var screen agentv1.ReadTerminalResponse
		if proto.Unmarshal(wire, &screen) == nil {
			redacted(by, &screen)
			text(screen.GetText(), 2*len(wire)+100)
		}
	})
}

// redacted redacts a message in the same way as a client.
func redacted[T any](by *redact.Redactor, m *T) {
	_, _ = machinerpc.Redact(func() *redact.Redactor { return by }).WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
		return connect.NewResponse(m), nil
	})(context.Background(), nil)
}
