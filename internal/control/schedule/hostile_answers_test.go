package schedule

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/wire/agentv1"
)

type (
	execStream = connect.BidiStream[agentv1.ExecStreamElement, agentv1.ExecServerElement]
	answer     = agentv1.ExecCompleted
)

// answering is an exec-daemon that replies to each call with the elements that
// say sends.
func answering(say func(id string, send func(*agentv1.ExecServerElement) error) error) func(context.Context, *execStream) error {
	return func(_ context.Context, s *execStream) error {
		for {
			m, err := s.Receive()
			if err != nil {
				return err
			}
			if beat := m.GetExecClientControlMessage().GetHeartbeat(); beat != nil {
				err = s.Send(&agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Heartbeat{Heartbeat: beat}})
			}
			if call := m.GetExecClientMessage(); call != nil {
				err = say(call.GetCallId(), s.Send)
			}
			if err != nil {
				return err
			}
		}
	}
}

func completed(a *answer) *agentv1.ExecServerElement {
	return &agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Completed{Completed: a}}
}

func delta(id, text string, seq uint64) *agentv1.ExecServerElement {
	of := &agentv1.ToolCallDelta{Delta: &agentv1.ToolCallDelta_ShellToolCallDelta{ShellToolCallDelta: &agentv1.ShellToolCallDelta{Stdout: text}}}
	return &agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Delta{Delta: &agentv1.ExecDelta{CallId: id, Delta: of, Sequence: seq}}}
}

// TestHostileAnswers has machines lie about the results of tool calls. Each
// call must get one bounded result of its own tool, and the run must end.
func TestHostileAnswers(t *testing.T) {
	shell := &agentv1.ToolCall{Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: &agentv1.ShellToolCall{
		Result: &agentv1.ShellResult{Result: &agentv1.ShellResult_Success{Success: &agentv1.ShellSuccess{Stdout: "honest"}}},
	}}}
	honest := func(id string) *agentv1.ExecServerElement {
		return completed(&answer{CallId: id, Text: "honest", ToolCall: shell})
	}
	grep := &agentv1.ToolCall{Tool: &agentv1.ToolCall_GrepToolCall{GrepToolCall: &agentv1.GrepToolCall{
		Result: &agentv1.GrepResult{Result: &agentv1.GrepResult_Success{Success: &agentv1.GrepSuccess{Output: "lie"}}},
	}}}
	all := func(send func(*agentv1.ExecServerElement) error, elements ...*agentv1.ExecServerElement) error {
		for _, e := range elements {
			if err := send(e); err != nil {
				return err
			}
		}
		return nil
	}
	for name, tt := range map[string]struct {
		say  func(id string, send func(*agentv1.ExecServerElement) error) error
		text string // beginning of the result's text
		fail bool   // the result is an error
	}{
		"answers calls that were never sent, and of another run": {func(id string, send func(*agentv1.ExecServerElement) error) error {
			return all(send, completed(&answer{CallId: "call_never", Text: "lie"}), completed(&answer{CallId: "toolu_of_another_run", Text: long}), completed(&answer{Text: "lie"}),
				delta("call_never", long, 1), delta("", long, 1), honest(id))
		}, "honest", false},
		"answers twice, and changes its mind": {func(id string, send func(*agentv1.ExecServerElement) error) error {
			return all(send, honest(id), completed(&answer{CallId: id, Text: "lie", IsError: true}), delta(id, "lie", 1<<40), honest(id))
		}, "honest", false},
		"answers with the result of another tool": {func(id string, send func(*agentv1.ExecServerElement) error) error {
			return all(send, completed(&answer{CallId: id, Text: "honest", ToolCall: grep}))
		}, "honest", false},
		"answers without a result": {func(id string, send func(*agentv1.ExecServerElement) error) error {
			return all(send, completed(&answer{CallId: id, Text: "honest", ToolCall: &agentv1.ToolCall{}, DurationMs: -1 << 62, Failure: 99}))
		}, "honest", false},
		"denies that it started the call": {func(id string, send func(*agentv1.ExecServerElement) error) error {
			return all(send, completed(&answer{CallId: id, Text: "lie", NeverStarted: true}))
		}, "The machine did not run this call", true},
		"answers at length": {func(id string, send func(*agentv1.ExecServerElement) error) error {
			a := &answer{CallId: id, Text: "honest" + strings.Repeat(long, 64), ToolCall: &agentv1.ToolCall{Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: &agentv1.ShellToolCall{
				Result: &agentv1.ShellResult{Result: &agentv1.ShellResult_Success{Success: &agentv1.ShellSuccess{Stdout: strings.Repeat(long, 32), OutputFile: long, Stderr: strings.Repeat(long, 32)}}},
			}}}}
			for range 100 {
				a.Pictures = append(a.Pictures, &agentv1.Picture{MediaType: "text/html", Data: []byte(long)})
			}
			return all(send, completed(a))
		}, "honest", false},
		"prints without end": {func(id string, send func(*agentv1.ExecServerElement) error) error {
			for i := range 1000 {
				if err := send(delta(id, long, uint64(i+1))); err != nil {
					return err
				}
			}
			return all(send, honest(id))
		}, "honest", false},
		"numbers its output wrongly": {func(id string, send func(*agentv1.ExecServerElement) error) error {
			return all(send, delta(id, "a", 1<<63), delta(id, "b", 1), delta(id, "c", 0), delta(id, "d", 1<<64-1), honest(id))
		}, "honest", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.calls = []conversation.ToolCall{{ID: "call_1", Name: "Shell", Args: json.RawMessage(`{"command":"ls"}`)}}
			s.guests.evil = evil{exec: answering(tt.say)}
			id := s.agent()
			s.run()
			if _, end := s.waitForEnd(id, 0); end.Status != agent.Finished {
				t.Errorf("the run ended as %s: %+v", end.Status, end.Failure)
			}
			results := s.results(id)
			if len(results) != 1 || !strings.HasPrefix(results[0].Text, tt.text) || results[0].Error != tt.fail {
				t.Fatalf("the results are %.200v", results)
			}
			if strings.Contains(string(results[0].Output), "lie") || len(results[0].Text) > 300<<10 {
				t.Errorf("the result is %.200s with %d bytes", results[0].Output, len(results[0].Text))
			}
			if size := s.journalSize(id); size > maxHostileJournal {
				t.Errorf("its journal has %d bytes", size)
			}
		})
	}
}

// results returns the results of an agent's calls.
func (s *site) results(id string) (all []*agent.CallDone) {
	s.t.Helper()
	events, err := s.store.Read(s.t.Context(), id, 0, 1000)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		if done, ok := e.Body.(*agent.CallDone); ok {
			all = append(all, done)
		}
	}
	return all
}
