package execd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"aloft/internal/guest/tool"
	"aloft/internal/wire/agentv1"
)

func TestExecStreamRunsACallOnce(t *testing.T) {
	var runs atomic.Int32
	release := make(chan struct{})
	r := serve(t, Config{Tools: []tool.Tool{shellTool(func(_ context.Context, command string, say func(string)) string {
		runs.Add(1)
		say("one")
		say("two")
		<-release
		say("three")
		return "ran " + command
	})}})

	first := r.stream(t)
	first.ask("c1", shellCall("x"))
	for i, want := range []string{"one", "two"} {
		d := first.next().GetDelta()
		if d.GetSequence() != uint64(i+1) || d.GetDelta().GetShellToolCallDelta().GetStdout() != want {
			t.Fatalf("delta is %v, want %q", d, want)
		}
	}
	first.cut() // the call continues

	second := r.stream(t)
	second.ask("c1", shellCall("x"))
	second.ask("c1", shellCall("x")) // on the same stream, so the call sends nothing more there
	second.beat()                    // the reply confirms that the server has read both messages
	heard := false
	for i, want := range []string{"one", "two", "three"} {
		if want == "three" {
			for !heard {
				heard = second.next().GetHeartbeat() != nil
			}
			close(release)
		}
		element := second.next()
		if element.GetHeartbeat() != nil {
			heard, element = true, second.next()
		}
		d := element.GetDelta()
		if d.GetSequence() != uint64(i+1) || d.GetDelta().GetShellToolCallDelta().GetStdout() != want {
			t.Fatalf("delta is %v, want %q", d, want)
		}
	}
	if done := second.next().GetCompleted(); done.GetText() != "ran x" || done.GetIsError() {
		t.Fatalf("result is %v", done)
	}
	second.ask("c1", shellCall("x"))
	if done := second.result(); done.GetText() != "ran x" {
		t.Errorf("the second time the result is %v", done)
	}
	second.ack("c1")
	second.ack("c1")
	second.ask("c1", shellCall("x"))
	if done := second.result(); !done.GetIsError() || !strings.Contains(done.GetText(), "acknowledged") {
		t.Errorf("after the ack the result is %v", done)
	}
	if runs.Load() != 1 {
		t.Errorf("ran %d times", runs.Load())
	}
}

func TestExecStreamAfterARestart(t *testing.T) {
	dir := t.TempDir()
	var runs atomic.Int32
	tools := []tool.Tool{shellTool(func(ctx context.Context, command string, say func(string)) string {
		runs.Add(1)
		if command == "long" {
			say("up")
			<-ctx.Done()
			return context.Cause(ctx).Error()
		}
		return "ran"
	})}
	before := serve(t, Config{StateDir: dir, Tools: tools})
	s := before.stream(t)
	for _, id := range []string{"kept", "acked"} {
		s.ask(id, shellCall(id))
		s.result()
	}
	s.ack("acked")
	s.ask("long", shellCall("long"))
	s.next()
	// Write the record that a call leaves if exec-daemon is killed with SIGKILL
	// while the call runs.
	if err := before.calls.record.start("killed"); err != nil {
		t.Fatal(err)
	}
	before.stop()

	after := serve(t, Config{StateDir: dir, Tools: tools})
	if after.BootID() != before.BootID() {
		t.Errorf("boot id %q became %q", before.BootID(), after.BootID())
	}
	s = after.stream(t)
	for id, want := range map[string]string{
		"kept": "ran", "acked": "acknowledged", "long": "stopping", "killed": "it may or may not have taken effect",
	} {
		s.ask(id, shellCall("again"))
		done := s.result()
		if !strings.Contains(done.GetText(), want) || done.GetIsError() != (id != "kept") {
			t.Errorf("%s: %v, want %q", id, done, want)
		}
	}
	if runs.Load() != 3 {
		t.Errorf("ran %d times, want 3", runs.Load())
	}
}

func TestExecStreamAborts(t *testing.T) {
	r := serve(t, Config{Tools: []tool.Tool{shellTool(func(ctx context.Context, _ string, say func(string)) string {
		say("up")
		<-ctx.Done()
		return context.Cause(ctx).Error()
	})}})
	s := r.stream(t)
	s.abort("c1", "before its time")
	s.ask("c1", shellCall("x"))
	s.next()
	s.abort("c1", "the user pressed stop")
	if done := s.result(); done.GetText() != "aborted: the user pressed stop" || !done.GetIsError() {
		t.Errorf("result is %v", done)
	}
	s.abort("c1", "twice")
	s.ack("c1")
}

// TestExecStreamAttachesWithoutStarting checks that an id without a tool call
// attaches to a known call and starts nothing.
func TestExecStreamAttachesWithoutStarting(t *testing.T) {
	var runs atomic.Int32
	r := serve(t, Config{Tools: []tool.Tool{shellTool(func(context.Context, string, func(string)) string {
		runs.Add(1)
		return "ran"
	})}})
	s := r.stream(t)
	s.ask("c1", nil)
	if done := s.result(); !done.GetNeverStarted() || !done.GetIsError() {
		t.Errorf("an unknown call: %v", done)
	}
	s.ask("c1", shellCall("x")) // a client that sends the whole call can still start it
	if done := s.result(); done.GetText() != "ran" {
		t.Errorf("started after that: %v", done)
	}
	s.ask("c1", nil)
	if done := s.result(); done.GetNeverStarted() || done.GetText() != "ran" {
		t.Errorf("a known call: %v", done)
	}
	s.ack("c1")
	s.ask("c1", nil)
	if done := s.result(); done.GetNeverStarted() || !strings.Contains(done.GetText(), "acknowledged") {
		t.Errorf("an acknowledged call: %v", done)
	}
	if runs.Load() != 1 {
		t.Errorf("ran %d times", runs.Load())
	}
}

// TestExecStreamUnhooked checks that a call for which no hooks have run does
// not start once the machine has hooks, whoever created them. After the hooks
// have run, a call with the same id must start.
func TestExecStreamUnhooked(t *testing.T) {
	var runs atomic.Int32
	workspace := t.TempDir()
	r := serve(t, Config{Workspace: workspace, Tools: []tool.Tool{shellTool(func(context.Context, string, func(string)) string {
		runs.Add(1)
		return "ran"
	})}})
	s := r.stream(t)
	unhooked := func(id string) *agentv1.ExecCompleted {
		s.send(&agentv1.ExecStreamElement{Element: &agentv1.ExecStreamElement_ExecClientMessage{
			ExecClientMessage: &agentv1.ExecClientMessage{CallId: id, ToolCall: shellCall("x"), Unhooked: true},
		}})
		return s.result()
	}
	if done := unhooked("c1"); done.GetHooked() || done.GetText() != "ran" {
		t.Errorf("without hooks: %v", done)
	}
	if err := os.MkdirAll(filepath.Join(workspace, ".cursor"), 0o755); err != nil {
		t.Fatal(err)
	}
	hooks := `{"version": 1, "hooks": {"preToolUse": [{"command": "true"}]}}`
	if err := os.WriteFile(filepath.Join(workspace, ".cursor", "hooks.json"), []byte(hooks), 0o644); err != nil {
		t.Fatal(err)
	}
	if done := unhooked("c2"); !done.GetHooked() || !done.GetIsError() || runs.Load() != 1 {
		t.Errorf("with a hook: %v, and %d calls ran", done, runs.Load())
	}
	if done := unhooked("c1"); done.GetHooked() || done.GetText() != "ran" { // the call had started before
		t.Errorf("a known call: %v", done)
	}
	s.ask("c2", shellCall("x"))
	if done := s.result(); done.GetHooked() || done.GetText() != "ran" || runs.Load() != 2 {
		t.Errorf("with hooks run: %v, and %d calls ran", done, runs.Load())
	}
}

func TestExecStreamSaysWhatItCannotRun(t *testing.T) {
	var runs atomic.Int32
	r := serve(t, Config{Tools: []tool.Tool{{Name: "Grep", Run: func(context.Context, *agentv1.ToolCall, tool.Emit) tool.Outcome {
		runs.Add(1)
		panic("a secret thing")
	}}}})
	s := r.stream(t)
	for id, c := range map[string]struct {
		call *agentv1.ToolCall
		want string
	}{
		"none":    {nil, "never started"},
		"unset":   {&agentv1.ToolCall{}, "not available"},
		"later":   {&agentv1.ToolCall{Tool: &agentv1.ToolCall_TruncatedToolCall{TruncatedToolCall: &agentv1.TruncatedToolCall{}}}, "truncated_tool_call is not available: needs another tool"},
		"absent":  {shellCall("x"), "Shell is not available: needs a newer exec-daemon"},
		"args":    {&agentv1.ToolCall{Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: &agentv1.ShellToolCall{}}}, "Shell has no arguments"},
		"edit":    {&agentv1.ToolCall{Tool: &agentv1.ToolCall_EditToolCall{EditToolCall: &agentv1.EditToolCall{Args: &agentv1.EditToolCall_Write{Write: &agentv1.WriteArgs{}}}}}, "Write is not available"},
		"bad id":  {shellCall("x"), "1 to 128 characters"},
		"../../x": {shellCall("x"), "1 to 128 characters"},
		"panic": {&agentv1.ToolCall{Tool: &agentv1.ToolCall_GrepToolCall{GrepToolCall: &agentv1.GrepToolCall{
			Args: &agentv1.GrepArgs{},
		}}}, "crashed"},
	} {
		s.ask(id, c.call)
		done := s.result()
		if !done.GetIsError() || !strings.Contains(done.GetText(), c.want) || strings.Contains(done.GetText(), "secret") {
			t.Errorf("%s: %v, want %q", id, done, c.want)
		}
		if id == "panic" && done.GetToolCall().GetGrepToolCall().GetResult().GetError().GetMessage() != done.GetText() {
			t.Errorf("%s: the message's own result is %v", id, done.GetToolCall())
		}
	}
	if runs.Load() != 1 {
		t.Errorf("%d calls ran, want 1", runs.Load())
	}
	if !strings.Contains(r.log.String(), "a secret thing") {
		t.Error("the panic is not in the log")
	}
}

// TestExecStreamSlowReader checks that a client that stops reading uses bounded
// memory and does not delay other clients.
func TestExecStreamSlowReader(t *testing.T) {
	const pieces = 2000
	piece := strings.Repeat("x", 16<<10)
	r := serve(t, Config{Tools: []tool.Tool{shellTool(func(_ context.Context, command string, say func(string)) string {
		if command == "loud" {
			for range pieces { // 32 MiB: more than all buffers on the way
				say(piece)
			}
		}
		return "done"
	})}})
	slow := r.stream(t)
	slow.ask("loud", shellCall("loud"))
	other := r.stream(t)
	other.ask("quick", shellCall("quick"))
	if done := other.result(); done.GetText() != "done" {
		t.Fatalf("%v", done)
	}
	// A call with much output ends even if no client reads the output. A client that
	// attaches later gets the last part of it.
	other.ask("loud", shellCall("loud"))
	last, heard := uint64(0), 0
	for {
		element := other.next()
		if element.GetCompleted() != nil {
			break
		}
		d := element.GetDelta()
		if d.GetSequence() <= last {
			t.Fatalf("sequence %d after %d", d.GetSequence(), last)
		}
		last = d.GetSequence()
		heard++
	}
	if last != pieces {
		t.Errorf("the last delta is %d, want %d", last, pieces)
	}
	r.calls.mu.Lock()
	loud := r.calls.known["loud"]
	r.calls.mu.Unlock()
	loud.mu.Lock()
	defer loud.mu.Unlock()
	if loud.costs > maxReplay {
		t.Errorf("%d bytes of deltas are kept", loud.costs)
	}
}

func TestExecStreamManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	all.Add(100) // each command waits for all others, so no call may block another
	r := serve(t, Config{Tools: []tool.Tool{shellTool(func(_ context.Context, command string, say func(string)) string {
		all.Done()
		all.Wait()
		file, err := os.OpenFile(filepath.Join(dir, command), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err.Error()
		}
		say(command)
		_ = file.Close()
		return command
	})}})
	s := r.stream(t)
	for i := range 100 {
		s.ask(fmt.Sprint("c", i), shellCall(strconv.Itoa(i)))
	}
	for range 100 {
		if done := s.result(); "c"+done.GetText() != done.GetCallId() {
			t.Errorf("%s: %s", done.GetCallId(), done.GetText())
		}
	}
}

func TestExecStreamRefusesTooManyCalls(t *testing.T) {
	r := serve(t, Config{Tools: []tool.Tool{shellTool(func(context.Context, string, func(string)) string { return "ran" })}})
	s := r.stream(t)
	for i := range maxCalls {
		s.ask(fmt.Sprint("c", i), shellCall(""))
		s.result()
	}
	s.ask("more", shellCall(""))
	if done := s.result(); !done.GetIsError() || !strings.Contains(done.GetText(), "not run") {
		t.Errorf("%v", done)
	}
	s.ack("c0")
	s.ask("more", shellCall(""))
	if done := s.result(); done.GetText() != "ran" {
		t.Errorf("after an ack: %v", done)
	}
}

func TestExecStreamWithoutDisk(t *testing.T) {
	r := serve(t, Config{Tools: []tool.Tool{shellTool(func(context.Context, string, func(string)) string { return "ran" })}})
	// With the log's file closed, writes to the log fail as on a full disk.
	if err := r.calls.record.file.Close(); err != nil {
		t.Fatal(err)
	}
	s := r.stream(t)
	s.ask("c1", shellCall("x"))
	if done := s.result(); !done.GetIsError() || !strings.Contains(done.GetText(), "not run") {
		t.Errorf("%v", done)
	}
	// Reopen the file, so that the cleanup can close it.
	var err error
	if r.calls.record.file, err = os.Open(os.DevNull); err != nil {
		t.Fatal(err)
	}
}

func TestOutcomesAreBounded(t *testing.T) {
	r := serve(t, Config{Tools: []tool.Tool{{Name: "Shell", Bounded: true, Run: func(_ context.Context, _ *agentv1.ToolCall, emit tool.Emit) tool.Outcome {
		emit(shellDelta("a\xffb"))
		out := tool.Outcome{
			Text: "\xff" + strings.Repeat("é", maxText),
			Call: &agentv1.ToolCall{Tool: &agentv1.ToolCall_GlobToolCall{GlobToolCall: &agentv1.GlobToolCall{
				Result: &agentv1.GlobToolResult{Result: &agentv1.GlobToolResult_Success{Success: &agentv1.GlobSuccess{}}},
			}}},
		}
		for range 12_000 {
			s := out.Call.GetGlobToolCall().GetResult().GetSuccess()
			s.Files = append(s.Files, "\xff"+strings.Repeat("y", 1000))
		}
		for range 7 {
			out.Pictures = append(out.Pictures, &agentv1.Picture{MediaType: "image/png", Data: make([]byte, 1000)})
		}
		return out
	}}}})
	s := r.stream(t)
	s.ask("c1", shellCall("x"))
	if d := s.next().GetDelta(); d.GetDelta().GetShellToolCallDelta().GetStdout() != "a\uFFFDb" {
		t.Errorf("delta is %v", d)
	}
	done := s.result()
	if n := len(done.GetText()); n > maxText+200 || !strings.Contains(done.GetText(), cutNote) {
		t.Errorf("text of %d bytes", n)
	}
	if n := len(done.GetPictures()); n != maxPictures {
		t.Errorf("%d pictures", n)
	}
	if n := len(done.GetToolCall().GetGlobToolCall().GetResult().GetSuccess().GetFiles()); n == 0 || n > maxListEntries {
		t.Errorf("%d files", n)
	}
}
