package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// TestCompactionsLoseNothing runs a model with random calls in a small context
// window. Every request must contain the prompts, their images, the todo list,
// the project's rules and the names of changed files, however often the
// conversation was compacted.
func TestCompactionsLoseNothing(t *testing.T) {
	shared := newRig(t, false)
	most := 0
	rapid.Check(t, func(t *rapid.T) {
		r := shared.another(false)
		r.info.ContextWindow = rapid.SampledFrom([]int{20_000, 40_000, 100_000}).Draw(t, "window")
		p := &player{t: t, window: r.info.ContextWindow}
		r.machine.call = p.work
		for run := range rapid.IntRange(1, 3).Draw(t, "runs") {
			prompt, id := p.prompt(run), agent.NewRunID()
			if run == 0 {
				r.id, id = agent.NewID(), r.run
				head := int64(0)
				r.append(store.Append{AgentID: r.id, IfHead: &head, Events: []agent.Event{
					{Body: &agent.Created{Name: "test"}}, {RunID: id, Body: &agent.RunCreated{Prompt: prompt}},
				}})
			} else {
				r.append(store.Append{AgentID: r.id, Events: []agent.Event{{RunID: id, Body: &agent.RunCreated{Prompt: prompt}}}})
			}
			r.run, p.left = id, rapid.IntRange(4, 16).Draw(t, "turns")
			c := r.config()
			c.Models.Model = p
			if err := loop.Run(context.Background(), r.id, c); err != nil {
				t.Fatal(err)
			}
			if ended, err := r.store.Run(context.Background(), r.id, r.run); err != nil || ended.Status != agent.Finished {
				t.Fatalf("run %d: %+v %v", run, ended, err)
			}
		}
		most = max(most, len(bodies[*agent.Compacted](r)))
	})
	if most < 3 {
		t.Errorf("no conversation was summarized more than %d times", most)
	}
}

// player is a model that makes random calls, and checks its requests.
type player struct {
	t      *rapid.T
	window int
	left   int // turns left in the run
	calls  int

	asked  []string
	images [][]byte
	todos  []agent.Todo
	rules  map[string]string // by path
	files  []string          // the most recently changed last
}

// words returns a unique text of at least n bytes.
func (p *player) words(n int) string {
	p.calls++
	return fmt.Sprintf("text %d. ", p.calls) + strings.Repeat("lorem ipsum ", n/12)
}

func (p *player) prompt(run int) conversation.Message {
	m := conversation.Text(conversation.User, p.words(rapid.IntRange(0, p.window/5).Draw(p.t, "prompt")))
	p.asked = append(p.asked, m.Blocks[0].Text)
	for n := range rapid.IntRange(0, 2).Draw(p.t, "images") {
		image := fmt.Appendf(nil, "image %d of run %d", n, run)
		p.images = append(p.images, image)
		m.Blocks = append(m.Blocks, conversation.Block{Image: &conversation.Image{MediaType: "image/png", Data: image}})
	}
	return m
}

// Stream implements [model.Model].
func (p *player) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	answer := p.answer(req)
	return func(yield func(model.Event, error) bool) {
		answer(func(e model.Event, err error) bool {
			if e.Done != nil {
				e.Done.Usage = conversation.Usage{} // the loop uses this to estimate the size
			}
			return yield(e, err)
		})
	}
}

func (p *player) answer(req model.Request) step {
	if len(req.Tools) == 0 { // the loop requests a summary
		return say(p.words(rapid.IntRange(0, p.window).Draw(p.t, "summary")))
	}
	p.check(req.Messages)
	if p.left--; p.left <= 0 {
		return say("done")
	}
	switch rapid.SampledFrom([]string{"shell", "shell", "todos", "write", "rules", "read"}).Draw(p.t, "turn") {
	case "todos":
		p.todos = nil
		for n := range rapid.IntRange(2, 6).Draw(p.t, "items") {
			status := rapid.SampledFrom([]string{"pending", "in_progress", "completed"}).Draw(p.t, "status")
			p.todos = append(p.todos, agent.Todo{ID: fmt.Sprint(n), Content: p.words(0), Status: status})
		}
		args, _ := json.Marshal(map[string]any{"merge": false, "todos": p.todos})
		return use("TodoWrite " + string(args))
	case "write":
		p.calls++
		file := fmt.Sprintf("/workspace/file-%d.go", p.calls)
		p.files = append(p.files, file)
		return use(fmt.Sprintf(`Write {"path":%q,"contents":"x"}`, file))
	case "rules":
		return use(fmt.Sprintf(`Read {"path":%q}`, rapid.SampledFrom([]string{"AGENTS.md", "web/AGENTS.md", ".cursor/rules/go.mdc"}).Draw(p.t, "rules")))
	case "read":
		return use(`Read {"path":"AGENTS.md","offset":3}`)
	}
	return use(`Shell {"command":"make"}`)
}

// work runs the calls in place of a machine.
func (p *player) work(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
	var args struct{ Path, Offset any }
	_ = json.Unmarshal(c.Args, &args)
	file, _ := args.Path.(string)
	switch c.Name {
	case "Write":
		return tool.Result{Text: "ok"}, nil
	case "Read":
		if args.Offset != nil && p.rules[file] != "" {
			return tool.Result{Text: "a part"}, nil
		}
		if p.rules == nil {
			p.rules = map[string]string{}
		}
		p.rules[file] = p.words(p.window / 40)
		return tool.Result{Text: p.rules[file]}, nil
	}
	return tool.Result{Text: strings.Repeat("lorem ipsum ", p.window/12)}, nil // limits the result to a quarter of the window
}

// check fails unless the messages contain everything that a compaction must
// keep.
func (p *player) check(messages []conversation.Message) {
	p.t.Helper()
	checkConversation(p.t, messages)
	var b strings.Builder
	var images []string
	for _, m := range messages {
		for _, block := range m.Blocks {
			b.WriteString(block.Text + "\n")
			if block.Image != nil {
				images = append(images, string(block.Image.Data))
			}
			if block.Result != nil {
				b.WriteString(block.Result.Text + "\n")
			}
			if block.Call != nil {
				b.Write(block.Call.Args)
			}
		}
	}
	said := b.String()
	has := func(what, text string) {
		p.t.Helper()
		if !strings.Contains(said, text) {
			p.t.Fatalf("%s is lost: %.60q", what, text)
		}
	}
	room := p.window / 10 * 4 // a tenth of the window, in bytes
	whole := 0
	for _, text := range p.asked {
		whole += len(text)
	}
	for i, text := range p.asked {
		if whole > room { // only the beginning and end of these prompts remain
			if i > 0 && i < len(p.asked)-1 {
				continue
			}
			half := min(len(text), room/4-64) // the cut marks take some of the space
			has("the beginning of a prompt", text[:half])
			text = text[len(text)-half:]
		}
		has("a prompt", text)
	}
	for i, image := range p.images {
		if n := p.window / 10 / 1600; len(p.images) > n && (i > 0 || n == 0) {
			continue
		}
		if !slices.Contains(images, string(image)) {
			p.t.Fatalf("%s is lost", image)
		}
	}
	for _, todo := range p.todos {
		has("an item of the todo list", fmt.Sprintf("[%s] %s: %s", todo.Status, todo.ID, todo.Content))
	}
	for _, text := range p.rules {
		has("a rule", text)
	}
	for _, file := range p.files {
		has("a changed file", file)
	}
}
