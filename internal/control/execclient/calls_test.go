package execclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/control/pod"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/tool"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// talker sends a test's messages on each stream, including messages that no
// real exec-daemon sends. It runs after the machine has received the first
// call.
type talker func(id string, say func(*agentv1.ExecServerElement)) error

type machineServer struct {
	hello func() *agentv1.ExecServerElement
	conn  talker
}

func (m machineServer) ExecStream(_ context.Context, s *connect.BidiStream[agentv1.ExecStreamElement, agentv1.ExecServerElement]) error {
	if err := s.Send(m.hello()); err != nil {
		return err
	}
	for {
		element, err := s.Receive()
		if err != nil {
			return err
		}
		if asked := element.GetExecClientMessage(); asked != nil {
			if err := m.conn(asked.GetCallId(), func(e *agentv1.ExecServerElement) { _ = s.Send(e) }); err != nil {
				return err
			}
		}
	}
}

// execTo returns a client of a machine that sends talk's messages.
func execTo(t *testing.T, hello func() *agentv1.ExecServerElement, talk talker, options ...Option) *Calls {
	t.Helper()
	path, handler := agentv1connect.NewExecServiceHandler(machineServer{hello, talk})
	e := NewCalls(execDaemon(t, path, handler), "token", options...)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func helloOf(digest, boot string) *agentv1.ExecServerElement {
	return &agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Hello{
		Hello: &agentv1.ExecHello{CatalogueDigest: digest, BootId: boot},
	}}
}

func usualHello() *agentv1.ExecServerElement { return helloOf(tool.Digest(), "boot-1") }

func deltaOf(id string, sequence uint64, text string) *agentv1.ExecServerElement {
	return &agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Delta{Delta: &agentv1.ExecDelta{
		CallId: id, Sequence: sequence, Delta: &agentv1.ToolCallDelta{Delta: &agentv1.ToolCallDelta_ShellToolCallDelta{
			ShellToolCallDelta: &agentv1.ShellToolCallDelta{Stdout: text},
		}},
	}}}
}

func completedOf(done *agentv1.ExecCompleted) *agentv1.ExecServerElement {
	return &agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Completed{Completed: done}}
}

var lsCall = conversation.ToolCall{ID: "c1", Name: "Shell", Args: json.RawMessage(`{"command":"ls"}`)}

func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestCallsRefuseAnotherCatalogue(t *testing.T) {
	e := execTo(t, func() *agentv1.ExecServerElement { return helloOf(strings.Repeat("0", 64), "b") },
		func(string, func(*agentv1.ExecServerElement)) error { t.Error("it was sent a call"); return nil })
	if _, _, err := e.Call(patience(t), lsCall, nil); !errors.Is(err, ErrCatalogue) {
		t.Errorf("%v", err)
	}
}

func TestCallsNeedsAHello(t *testing.T) {
	e := execTo(t, func() *agentv1.ExecServerElement { return deltaOf("c1", 1, "hi") },
		func(string, func(*agentv1.ExecServerElement)) error { t.Error("it was sent a call"); return nil })
	if _, _, err := e.Call(patience(t), lsCall, nil); !fault.Is(err, fault.KindUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestCallsGivesUpOnAStreamThatBreaks(t *testing.T) {
	for name, talk := range map[string]talker{
		"AtOnce": func(string, func(*agentv1.ExecServerElement)) error { return errors.New("no") },
		"TooLongAMessage": func(id string, say func(*agentv1.ExecServerElement)) error {
			say(completedOf(&agentv1.ExecCompleted{CallId: id, Text: strings.Repeat("x", maxElement+1)}))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := execTo(t, usualHello, talk).Call(patience(t), lsCall, nil)
			if !fault.Is(err, fault.KindUnavailable) || !strings.Contains(err.Error(), "breaking") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestCallsEndless calls a machine that keeps the stream alive and sends
// output, but never the result. The client must abort the call.
func TestCallsEndless(t *testing.T) {
	e := execTo(t, usualHello, func(id string, say func(*agentv1.ExecServerElement)) error {
		say(deltaOf(id, 1, "working"))
		return nil
	}, func(o *options) { o.timeout = 50 * time.Millisecond })
	_, _, err := e.Call(patience(t), lsCall, nil)
	if !errors.Is(err, errEndless) {
		t.Errorf("the call ended with %v", err)
	}
	if _, _, _, err = e.Attach(patience(t), lsCall.ID, nil); !errors.Is(err, errEndless) {
		t.Errorf("the call to which it attached ended with %v", err)
	}
}

func TestCallsDoesNotSendACallToAnotherBoot(t *testing.T) {
	boots := make(chan string, 2)
	boots <- "boot-1"
	boots <- "boot-2"
	calls := 0
	e := execTo(t, func() *agentv1.ExecServerElement { return helloOf(tool.Digest(), <-boots) },
		func(string, func(*agentv1.ExecServerElement)) error {
			calls++
			return errors.New("the machine went down")
		})
	if _, _, err := e.Call(patience(t), lsCall, nil); !errors.Is(err, pod.ErrLost) {
		t.Errorf("%v", err)
	}
	if calls != 1 {
		t.Errorf("sent %d times", calls)
	}
}

func TestCallsDeltasComeOnceAndInOrder(t *testing.T) {
	e := execTo(t, usualHello, func(id string, say func(*agentv1.ExecServerElement)) error {
		say(deltaOf("another", 1, "not ours"))
		for _, sequence := range []uint64{1, 2, 2, 1, 5, 4, 6} {
			say(deltaOf(id, sequence, string(rune('0'+sequence))))
		}
		say(completedOf(&agentv1.ExecCompleted{CallId: "another"}))
		say(completedOf(&agentv1.ExecCompleted{CallId: id, Text: "done", DurationMs: -5}))
		say(completedOf(&agentv1.ExecCompleted{CallId: id, Text: "done twice"}))
		say(deltaOf(id, 7, "late"))
		return nil
	})
	var heard string
	res, took, err := e.Call(patience(t), lsCall, func(d Delta) { heard += d.Stdout })
	if err != nil || res.Text != "done" || took != 0 || heard != "1256" {
		t.Errorf("%+v, %v, %v, heard %q", res, took, err, heard)
	}
}

// TestCallsHooked checks that a machine can send back only calls for which the
// loop has run no hooks. Otherwise it could make the loop repeat a call.
func TestCallsHooked(t *testing.T) {
	e := execTo(t, usualHello, func(id string, say func(*agentv1.ExecServerElement)) error {
		say(completedOf(&agentv1.ExecCompleted{CallId: id, Text: "hooked", IsError: true, Hooked: true}))
		return nil
	})
	call := conversation.ToolCall{ID: "c1", Name: "Shell", Args: json.RawMessage(`{"command":"true"}`), Unhooked: true}
	if _, _, err := e.Call(patience(t), call, nil); !errors.Is(err, ErrHooked) {
		t.Errorf("an unhooked call: %v", err)
	}
	call.ID, call.Unhooked = "c2", false
	if r, _, err := e.Call(patience(t), call, nil); err != nil || !r.Error {
		t.Errorf("another call: %+v, %v", r, err)
	}
}

func TestCallsRefusesTheSameIDTwice(t *testing.T) {
	asked, over := make(chan struct{}), make(chan struct{})
	e := execTo(t, usualHello, func(id string, say func(*agentv1.ExecServerElement)) error {
		close(asked)
		<-over
		say(completedOf(&agentv1.ExecCompleted{CallId: id, Text: "done"}))
		return nil
	})
	first := make(chan error, 1)
	go func() {
		_, _, err := e.Call(context.Background(), lsCall, nil)
		first <- err
	}()
	<-asked
	if _, _, err := e.Call(patience(t), lsCall, nil); !fault.Is(err, fault.KindConflict) {
		t.Errorf("%v", err)
	}
	close(over)
	if err := <-first; err != nil {
		t.Error(err)
	}
	bad := lsCall
	bad.ID = "../x"
	if _, _, err := e.Call(patience(t), bad, nil); !fault.Is(err, fault.KindInvalid) {
		t.Errorf("%v", err)
	}
	wrong := conversation.ToolCall{ID: "c2", Name: "Shell", Args: json.RawMessage(`{}`)}
	if res, _, err := e.Call(patience(t), wrong, nil); err != nil || !res.Error || !strings.Contains(res.Text, "command is missing") {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestInFlightDeltasAreBounded(t *testing.T) {
	of := newInFlight("c1", nil)
	piece := strings.Repeat("é", maxDelta) // twice the limit
	for i := range uint64(1000) {
		of.hear(deltaOf("c1", i+1, piece).GetDelta())
	}
	deltas, over, _, _ := of.take()
	if over || len(deltas) == 0 || len(deltas) > maxWaiting/maxDelta+1 {
		t.Errorf("%d deltas wait", len(deltas))
	}
	for _, d := range deltas {
		if len(d.Stdout) > maxDelta {
			t.Errorf("a delta of %d bytes", len(d.Stdout))
		}
	}
	if deltas[len(deltas)-1].Seq > maxOutput/(maxDelta-2) {
		t.Errorf("delta %d was taken", deltas[len(deltas)-1].Seq)
	}
}

func TestResultsAreBounded(t *testing.T) {
	done := &agentv1.ExecCompleted{
		Text: strings.Repeat("é", maxText),
		ToolCall: &agentv1.ToolCall{Tool: &agentv1.ToolCall_GlobToolCall{GlobToolCall: &agentv1.GlobToolCall{
			Args: &agentv1.GlobToolArgs{GlobPattern: "said by the machine"},
			Result: &agentv1.GlobToolResult{Result: &agentv1.GlobToolResult_Success{Success: &agentv1.GlobSuccess{
				TargetDirectory: strings.Repeat("\x01", 1<<20), Files: slicesOf(100_000, "file"),
			}}},
		}}},
	}
	for range 9 {
		done.Pictures = append(done.Pictures, &agentv1.Picture{MediaType: "image/png", Data: []byte("x")})
	}
	r := resultOf(done)
	if len(r.Text) > maxText+200 || len(r.Images) != maxPictures {
		t.Errorf("%d bytes of text, %d pictures", len(r.Text), len(r.Images))
	}
	if len(r.Output) > maxJSON || !json.Valid(r.Output) || !bytes.HasPrefix(r.Output, []byte(`{"success":{`)) || bytes.Contains(r.Output, []byte("said by")) {
		t.Errorf("output of %d bytes: %.80s", len(r.Output), r.Output)
	}
	for name, p := range map[string]*agentv1.Picture{
		"TooLarge": {MediaType: "image/png", Data: make([]byte, maxPicture+1)}, "NoPicture": {MediaType: "image/svg+xml", Data: []byte("<svg/>")},
	} {
		if r := resultOf(&agentv1.ExecCompleted{Pictures: []*agentv1.Picture{p}}); len(r.Images) != 0 || !strings.Contains(r.Text, "image omitted") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestResultOutput(t *testing.T) {
	for name, c := range map[string]struct {
		done *agentv1.ExecCompleted
		want string
	}{
		"Success": {&agentv1.ExecCompleted{ToolCall: &agentv1.ToolCall{Tool: &agentv1.ToolCall_DeleteToolCall{DeleteToolCall: &agentv1.DeleteToolCall{
			Result: &agentv1.DeleteResult{Result: &agentv1.DeleteResult_Success{Success: &agentv1.DeleteSuccess{Path: "a"}}},
		}}}}, `{"success":{"path":"a","sizeBytes":0}}`},
		"Error": {&agentv1.ExecCompleted{IsError: true, ToolCall: &agentv1.ToolCall{Tool: &agentv1.ToolCall_DeleteToolCall{DeleteToolCall: &agentv1.DeleteToolCall{
			Result: &agentv1.DeleteResult{Result: &agentv1.DeleteResult_Error{Error: &agentv1.ToolError{Message: "no"}}},
		}}}}, `{"error":{"message":"no"}}`},
		"NoMessage":      {&agentv1.ExecCompleted{IsError: true, Text: "no"}, `{"error":{"message":"no"}}`},
		"NoResult":       {&agentv1.ExecCompleted{ToolCall: &agentv1.ToolCall{Tool: &agentv1.ToolCall_DeleteToolCall{}}}, `{"success":{}}`},
		"NoKindOfResult": {&agentv1.ExecCompleted{ToolCall: &agentv1.ToolCall{Tool: &agentv1.ToolCall_LsToolCall{}}}, `{"success":{}}`},
	} {
		if got := string(resultOf(c.done).Output); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func slicesOf(n int, s string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = s
	}
	return all
}
