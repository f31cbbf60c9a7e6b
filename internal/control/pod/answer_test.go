package pod

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"aloft/internal/redact"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/podv1"
)

// FuzzAnswers lets a machine return anything. No secret may get through, and
// the kept parts of a reply must be bounded, valid text, with plausible times.
func FuzzAnswers(f *testing.F) {
	const value = "glpat-a-very-secret-token"
	for _, m := range []proto.Message{
		&podv1.BootStep{Name: value, DurationMs: 1 << 62, State: podv1.BootStep_STATE_FAILED, Code: value, Detail: strings.Repeat("x", 1<<16)},
		&podv1.BootReady{BootId: value, Notes: make([]string, 1000), Others: []*podv1.CheckedOut{{Branch: value}}},
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
	by := &secrets{}
	by.now.Store(redact.New(map[string]string{"k": value}))
	h := heard{by}
	f.Fuzz(func(t *testing.T, wire []byte) {
		text := func(s string, most int) {
			t.Helper()
			if len(s) > most || !utf8.ValidString(s) || strings.Contains(s, value) {
				t.Errorf("%d bytes of %.100q", len(s), s)
			}
		}
		var step podv1.BootStep
		if proto.Unmarshal(wire, &step) == nil {
			h.message(&step)
			s := stepOf(&step)
			text(s.Name, maxWord)
			text(s.Detail, maxDetail)
			text(s.Code, maxWord)
			if s.Duration < 0 || s.Duration > longest {
				t.Errorf("it took %s", s.Duration)
			}
		}
		var ready podv1.BootReady
		if proto.Unmarshal(wire, &ready) == nil {
			h.message(&ready)
			if r, err := readyOf(&ready, len(ready.GetOthers())); err == nil {
				text(r.BootID+r.Branch, 2*maxWord)
				if len(r.Notes) > maxNotes {
					t.Errorf("%d notes", len(r.Notes))
				}
			}
		}
		var hooks agentv1.RunHooksResponse
		if proto.Unmarshal(wire, &hooks) == nil {
			h.message(&hooks)
			o := hookOutcome(&hooks)
			text(o.UserMessage, maxHookWords)
			if len(o.Runs)+len(o.Warnings)+len(o.PresentEvents) > 3*maxHookRuns {
				t.Errorf("%d runs, %d warnings", len(o.Runs), len(o.Warnings))
			}
			for _, r := range o.Runs {
				text(r.Command+r.File, 2*maxDetail)
				if r.DurationMS < 0 {
					t.Errorf("it took %d ms", r.DurationMS)
				}
			}
		}
		var list agentv1.ListTerminalsResponse
		if proto.Unmarshal(wire, &list) == nil {
			h.message(&list)
			for _, of := range list.GetTerminals() {
				kept := terminalOf(of)
				text(kept.Name, maxWord)
				if _, err := json.Marshal(kept); err != nil { // fails for times outside of the range of JSON
					t.Error(err)
				}
			}
		}
		var screen agentv1.ReadTerminalResponse
		if proto.Unmarshal(wire, &screen) == nil {
			h.message(&screen)
			text(screen.GetText(), 2*len(wire)+100)
		}
	})
}
