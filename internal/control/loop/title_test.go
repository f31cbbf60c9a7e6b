package loop_test

import (
	"context"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

func TestTitle(t *testing.T) {
	for _, c := range []struct {
		name, reply, want string
		titled            int
	}{
		{"JSON", `{"title": "Mend the parser"}`, "Mend the parser", 1},
		{"InABlockOfCode", "```json\n{\"title\": \"Mend the parser\"}\n```", "Mend the parser", 1},
		{"TooLong", `{"title": "` + strings.Repeat("word ", 50) + `"}`, strings.TrimSpace(strings.Repeat("word ", 6)), 1},
		{"NotATitle", "I will mend it.", "mend it", 0},
		{"Empty", `{"title": " "}`, "mend it", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, false)
			r.model.steps = []step{say("done")}
			fast := &answers{steps: []step{say(c.reply)}}
			r.change = func(cfg *loop.Config) {
				cfg.Models.Fast, cfg.Models.Named = "fast", named(map[string]*answers{"fast": fast})
			}
			run := r.work(t.Context())
			a, err := r.store.Agent(t.Context(), r.id)
			if err != nil || a.Name != c.want || run.Result != "done" {
				t.Errorf("the agent's name is %q, want %q; %+v, %v", a.Name, c.want, run, err)
			}
			titled := bodies[*agent.Titled](r)
			if len(titled) != c.titled || len(fast.requests) != 1 || !strings.Contains(fast.requests[0].Messages[0].PlainText(), "mend it") || fast.requests[0].Schema == nil {
				t.Errorf("titled %d times with %d requests", len(titled), len(fast.requests))
			}
			r.model.requests, r.run = nil, agent.NewRunID()
			r.record(&agent.RunCreated{Prompt: conversation.Text(conversation.User, "more")})
			r.work(t.Context())
			if len(fast.requests) != 1 {
				t.Error("the second run asked for a title")
			}
		})
	}
}

// TestChosenNameStays checks that no model changes a name that a person has given the
// agent before its first run or while the model is asked.
func TestChosenNameStays(t *testing.T) {
	setUp := func(r *rig, titles ...step) *answers {
		r.model.steps = []step{say("done")}
		fast := &answers{steps: titles}
		r.change = func(cfg *loop.Config) {
			cfg.Models.Fast, cfg.Models.Named = "fast", named(map[string]*answers{"fast": fast})
		}
		return fast
	}
	nameOf := func(r *rig) string {
		a, err := r.store.Agent(t.Context(), r.id)
		if err != nil {
			t.Fatal(err)
		}
		return a.Name
	}
	t.Run("Before", func(t *testing.T) {
		r := newRig(t, false)
		r.record(&agent.Titled{Title: "My parser"})
		fast := setUp(r)
		r.work(t.Context())
		if name := nameOf(r); name != "My parser" || len(fast.requests) != 0 {
			t.Errorf("the name is %q after %d requests", name, len(fast.requests))
		}
	})
	t.Run("AtCreation", func(t *testing.T) {
		r := &rig{t: t, store: newRig(t, false).store, id: agent.NewID(), run: agent.NewRunID(), machine: &fakeMachine{boot: "boot-1"}, info: model.Info{ID: "m"}}
		r.begin(&agent.Created{Name: "My parser"})
		fast := setUp(r)
		r.work(t.Context())
		if name := nameOf(r); name != "My parser" || len(fast.requests) != 0 {
			t.Errorf("the name is %q after %d requests", name, len(fast.requests))
		}
	})
	t.Run("Meanwhile", func(t *testing.T) {
		r := newRig(t, false)
		setUp(r, func(yield func(model.Event, error) bool) {
			r.append(store.Append{AgentID: r.id, Events: []agent.Event{{Body: &agent.Titled{Title: "My parser"}}}})
			say(`{"title": "Mend the parser"}`)(yield)
		})
		r.work(t.Context())
		if name := nameOf(r); name != "My parser" {
			t.Errorf("the name is %q", name)
		}
	})
}

// TestFastModelSummarizes checks that the fast model writes summaries if its
// context window is large enough, and that the agent's own model takes over if
// the fast model fails.
func TestFastModelSummarizes(t *testing.T) {
	for _, c := range []struct {
		name   string
		window int
		fast   step
		by     string
	}{
		{"Enough", 2000, say("a summary of the fast model"), "fast"},
		{"TooSmall", 1000, nil, "own"},
		{"Fails", 2000, fail(&model.Error{Reason: model.Unauthorized}), "own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, false)
			r.info.ContextWindow = 2000
			r.record(&agent.Titled{Title: "x"})
			fast := &answers{steps: []step{c.fast}}
			r.change = func(cfg *loop.Config) {
				cfg.Models.Fast = "fast"
				cfg.Models.Named = func(string) (model.Model, model.Info, error) {
					return fast, model.Info{ID: "fast", ContextWindow: c.window}, nil
				}
			}
			r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
				return tool.Result{Text: strings.Repeat("lorem ipsum ", 200)}, nil // about 600 tokens
			}
			r.model.steps = []step{use(`Shell {}`), use(`Shell {}`), use(`Shell {}`)}
			if c.by == "own" {
				r.model.steps = append(r.model.steps, say("a summary of the own model"))
			}
			r.model.steps = append(r.model.steps, say("done"))
			r.work(t.Context())
			compacted := bodies[*agent.Compacted](r)
			if len(compacted) == 0 || !strings.Contains(compacted[0].Summary, "a summary of the "+c.by+" model") {
				t.Errorf("compacted %+v", compacted)
			}
		})
	}
}
