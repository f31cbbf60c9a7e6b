package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/control/model"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/control/model/scripted"
	"aloft/internal/conversation"
)

func play(t *testing.T, file string) model.Model {
	t.Helper()
	f, err := scripted.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return scripted.Play(f)
}

func ask(words string) model.Request {
	return model.Request{Tools: modeltest.Tools(), Messages: []conversation.Message{conversation.Text(conversation.User, words)}}
}

func reply(t *testing.T, m model.Model, req model.Request) (*model.Reply, error) {
	t.Helper()
	var done *model.Reply
	for ev, err := range m.Stream(t.Context(), req) {
		if err != nil {
			return nil, err
		}
		done = ev.Done
	}
	if done == nil {
		t.Fatal("no reply and no error")
	}
	return done, nil
}

// work plays a conversation to its end and returns it.
func work(t *testing.T, m model.Model, req model.Request, result func(conversation.ToolCall) string) model.Request {
	t.Helper()
	for range 100 {
		r, err := reply(t, m, req)
		if err != nil {
			t.Fatal(err)
		}
		req.Messages = append(req.Messages, r.Message)
		calls := r.Message.Calls()
		if (len(calls) > 0) != (r.Stop == model.StopCalls) {
			t.Fatalf("%d calls, stop %q", len(calls), r.Stop)
		}
		if len(calls) == 0 {
			return req
		}
		var blocks []conversation.Block
		for _, c := range calls {
			blocks = append(blocks, conversation.Block{Result: &conversation.ToolResult{CallID: c.ID, Text: result(c)}})
		}
		req.Messages = append(req.Messages, conversation.Message{Role: conversation.User, Blocks: blocks})
	}
	t.Fatal("it does not end")
	return req
}

func TestTemplatesAndTurns(t *testing.T) {
	const script = `
scripts:
  - match: 'read (\S+)'
    turns:
      - thinking: "They said {{prompt}}."
        text: "Reading {{match 1}}."
        calls:
          - tool: Read
            args: {path: "{{match 1}}", deep: {list: ["{{turn}}", 2, true, null]}}
          - tool: Shell
            args: {path: x}
      - text: '{{result 1}} / {{find "passed (\\d+)"}} / {{match 7}}{{result 9}}{{find "nothing"}}'
  - turns:
      - text: anything
`
	req := work(t, play(t, script), ask("please read a.go"), func(c conversation.ToolCall) string {
		return c.Name + " passed 12"
	})
	first := req.Messages[1]
	if th := first.Blocks[0].Thinking; th == nil || th.Text != "They said please read a.go." {
		t.Errorf("thinking %+v", th)
	}
	if first.PlainText() != "Reading a.go." {
		t.Errorf("text %q", first.PlainText())
	}
	if args := string(first.Calls()[0].Args); args != `{"deep":{"list":["0",2,true,null]},"path":"a.go"}` {
		t.Errorf("args %s", args)
	}
	if got := req.Messages[3].PlainText(); got != "Shell passed 12 / 12 / " {
		t.Errorf("last %q", got)
	}
	// A follow-up starts a script again, with new ids. A prompt that matches no
	// other script starts the default script.
	req.Messages = append(req.Messages, conversation.Text(conversation.User, "please read a.go"))
	again := work(t, play(t, script), req, func(conversation.ToolCall) string { return "" })
	seen := map[string]bool{}
	for _, m := range again.Messages {
		for _, c := range m.Calls() {
			if seen[c.ID] {
				t.Errorf("id %q is there twice", c.ID)
			}
			seen[c.ID] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d calls", len(seen))
	}
	if r, _ := reply(t, play(t, script), ask("hello")); r.Message.PlainText() != "anything" {
		t.Errorf("%+v", r)
	}
}

func TestTheSameRequestHasTheSameReply(t *testing.T) {
	req := ask("x")
	for range 3 {
		a, err := reply(t, scripted.Endless(0), req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := reply(t, scripted.Endless(0), req) // simulate another process
		aj, _ := json.Marshal(a)
		bj, _ := json.Marshal(b)
		if string(aj) != string(bj) {
			t.Fatalf("%s\n%s", aj, bj)
		}
		req.Messages = append(req.Messages, a.Message, conversation.Message{Role: conversation.User, Blocks: []conversation.Block{
			{Result: &conversation.ToolResult{CallID: a.Message.Calls()[0].ID}}}})
	}
}

func TestEndlessEnds(t *testing.T) {
	req := work(t, scripted.Endless(7), ask("go"), func(conversation.ToolCall) string { return "" })
	if n := len(req.Messages); n != 1+7*2+1 {
		t.Errorf("%d messages", n)
	}
}

func TestTheTurnSurvivesASummary(t *testing.T) {
	m := play(t, `
scripts:
  - turns: [{text: other}]
    match: never
  - turns:
      - calls: [{tool: Shell, args: {path: "0"}}]
      - calls: [{tool: Shell, args: {path: "1"}}]
      - calls: [{tool: Shell, args: {path: "2"}}]
      - calls: [{tool: Shell, args: {path: "3"}}]
`)
	req := ask("go")
	seen := map[string]bool{}
	for turn := range 4 {
		r, err := reply(t, m, req)
		if err != nil {
			t.Fatal(err)
		}
		c := r.Message.Calls()[0]
		if want := fmt.Sprintf(`{"path":"%d"}`, turn); string(c.Args) != want || seen[c.ID] {
			t.Fatalf("turn %d: %+v", turn, c)
		}
		seen[c.ID] = true
		req.Messages = append(req.Messages, r.Message, conversation.Message{Role: conversation.User, Blocks: []conversation.Block{
			{Result: &conversation.ToolResult{CallID: c.ID, Text: "ok"}}}})
		if turn == 0 || turn == 2 {
			// Replace the conversation by a summary, as the loop does: first
			// with one turn kept, then with none.
			old := fmt.Sprintf("[user] go\n[call %s of Shell] {}\n[result of %s] ok\n", c.ID, c.ID)
			s, err := reply(t, m, model.Request{System: "sum up", Messages: []conversation.Message{conversation.Text(conversation.User, old)}})
			if err != nil {
				t.Fatal(err)
			}
			req.Messages = []conversation.Message{conversation.Text(conversation.User, "Summary:\n"+s.Message.PlainText())}
		}
	}
}

func TestFailuresAreMetOnce(t *testing.T) {
	m := play(t, `
scripts:
  - turns:
      - text: "a text of some length, so that there is a middle"
        chunk: 4
        fail:
          - {status: 429, retryAfter: 1500ms, message: slow down}
          - {status: 529}
          - {unreachable: true}
          - {cut: true}
`)
	for _, want := range []model.Reason{model.RateLimited, model.Overloaded, model.Unreachable, model.Cut} {
		_, err := reply(t, m, ask("x"))
		e, ok := errors.AsType[*model.Error](err)
		if !ok || e.Reason != want || !e.Temporary() {
			t.Fatalf("%v, want %s", err, want)
		}
		if want == model.RateLimited && (e.RetryAfter != 1500*time.Millisecond || e.Message != "slow down") {
			t.Errorf("%+v", e)
		}
	}
	if r, err := reply(t, m, ask("x")); err != nil || r.Stop != model.StopEnd {
		t.Errorf("%v %v", r, err)
	}
	always := play(t, "scripts: [{turns: [{text: x, fail: [{status: 401, always: true}]}]}]")
	for range 3 {
		if _, err := reply(t, always, ask("x")); model.ReasonOf(err) != model.Unauthorized {
			t.Errorf("%v", err)
		}
	}
}

func TestDelayIsTimeBetweenPieces(t *testing.T) {
	m := play(t, "scripts: [{turns: [{text: abcdef, chunk: 2, delay: 1s}]}]")
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if _, err := reply(t, m, ask("x")); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d != 4*time.Second { // three pieces and the end
			t.Errorf("it took %v", d)
		}
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var last error
		for _, err := range m.Stream(ctx, ask("x")) {
			last = err
			cancel(why)
		}
		if !errors.Is(last, why) {
			t.Errorf("%v", last)
		}
	})
}

func TestItRefusesWhatProvidersRefuse(t *testing.T) {
	req := ask("x")
	req.Messages = append(req.Messages, conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{
		{Call: &conversation.ToolCall{ID: "call_1", Name: "Read", Args: json.RawMessage("{}")}}}}, conversation.Text(conversation.User, "and?"))
	if _, err := reply(t, scripted.Endless(0), req); model.ReasonOf(err) != model.BadRequest {
		t.Errorf("a call without a result: %v", err)
	}
}

func TestDemo(t *testing.T) {
	m, err := scripted.New(scripted.Config{})
	if err != nil {
		t.Fatal(err)
	}
	req := work(t, m, ask("The slug tests fail; mend the code"), func(conversation.ToolCall) string { return "" })
	if n := len(req.Messages); n < 10 {
		t.Errorf("only %d messages", n)
	}
	other := work(t, m, ask("Write a poem"), func(conversation.ToolCall) string { return "" })
	if last := other.Messages[len(other.Messages)-1].PlainText(); !strings.Contains(last, "scripted model") {
		t.Errorf("it does not say what it is: %q", last)
	}
}

func TestFile(t *testing.T) {
	if _, err := scripted.New(scripted.Config{File: filepath.Join(t.TempDir(), "none.yaml")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	path := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(path, []byte(`{"scripts":[{"turns":[{"text":"from JSON"}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := scripted.New(scripted.Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := reply(t, m, ask("x")); r.Message.PlainText() != "from JSON" {
		t.Errorf("%+v", r)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for file, want := range map[string]string{
		"":                                    "EOF",
		"scripts: []":                         "scripts is empty",
		"scripts:\n  - turns: []":             "scripts[0]: turns is empty",
		"scripts:\n  - turn: []":              "[2:",
		"scripts:\n  - turns:\n    - text: [": "[3:",
		"scripts: [{turns: [{text: x, delay: fast}]}]":                "fast",
		"scripts: [{turns: [{text: x, delay: -1s}]}]":                 "negative",
		"scripts: [{match: '(', turns: [{text: x}]}]":                 "match",
		"scripts: [{turns: [{text: '{{nobody}}'}]}]":                  "nobody",
		"scripts: [{turns: [{stop: now}]}]":                           `"now"`,
		"scripts: [{turns: [{calls: [{tool: 'a b'}]}]}]":              "not the name of a tool",
		"scripts: [{turns: [{calls: [{tool: a, args: {x: .nan}}]}]}]": "NaN",
		"scripts: [{turns: [{calls: [{tool: a, args: {x: '{{'}}]}]}]": "unclosed",
		"scripts: [{turns: [{fail: [{}]}]}]":                          "fail[0]",
		"scripts: [{turns: [{fail: [{status: 200}]}]}]":               "not a failure",
		"scripts: [{turns: [{fail: [{status: 500, cut: true}]}]}]":    "one of",
	} {
		if _, err := scripted.Parse([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", file, err, want)
		}
	}
}

// BenchmarkTurn measures the model's own cost in conversations of different
// lengths.
func BenchmarkTurn(b *testing.B) {
	for _, turns := range []int{1, 1000} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			m := scripted.Endless(0)
			req := ask("go")
			for i := range turns - 1 {
				id := fmt.Sprintf("call_%d", i)
				req.Messages = append(req.Messages,
					conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Call: &conversation.ToolCall{
						ID: id, Name: "Shell", Args: json.RawMessage(`{"command":"true"}`)}}}},
					conversation.Message{Role: conversation.User, Blocks: []conversation.Block{{Result: &conversation.ToolResult{CallID: id}}}})
			}
			for b.Loop() {
				for _, err := range m.Stream(b.Context(), req) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("scripts: [{match: x, turns: [{text: '{{prompt}}', calls: [{tool: Read, args: {a: [1, {b: '{{result 0}}'}]}}]}]}]"))
	f.Add([]byte("scripts: &a [{turns: [{fail: [{status: 429, retryAfter: 1s}], usage: {input: 1}}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := scripted.Parse(data)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // the context limits the delays that a script may have
		defer cancel()
		for ev, err := range scripted.Play(file).Stream(ctx, ask("x")) {
			if err != nil || ev.Done == nil {
				continue
			}
			for _, c := range ev.Done.Message.Calls() {
				if !json.Valid(c.Args) {
					t.Fatalf("arguments %q", c.Args)
				}
			}
		}
	})
}
