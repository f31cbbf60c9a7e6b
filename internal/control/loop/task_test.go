package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/hook"
	"aloft/internal/policy/permit"
	"aloft/internal/subagent"
	"aloft/internal/tool"
)

// within returns the events of one type in subagents' conversations, in order.
func within[B agent.Body](r *rig) []B {
	r.t.Helper()
	var out []B
	for _, w := range bodies[*agent.Within](r) {
		if b, ok := w.Body.(B); ok {
			out = append(out, b)
		}
	}
	return out
}

func toolsOf(req model.Request) []string {
	var names []string
	for _, spec := range req.Tools {
		names = append(names, spec.Name)
	}
	return names
}

func TestTask(t *testing.T) {
	r := newRig(t, true)
	r.model.steps = []step{
		use(`Task {"description":"find the flags","prompt":"where are flags read?","subagent_type":"debug"}`),
		use(`Shell {"command":"grep -r flag"}`, `Write {"path":"a.go","contents":"x"}`), say("in ", "main.go"), say("all done"),
	}
	run := r.work(t.Context())
	if run.Status != agent.Finished || run.Result != "all done" || run.Turns != 2 || run.Usage.Output != 10 {
		t.Errorf("got %+v", run)
	}
	if want := []string{"Shell", "Write", "commit", "push aloft/test-0000"}; !slices.Equal(r.machine.asked, want) || len(r.machine.acked) != 2 {
		t.Errorf("asked %q, acknowledged %q", r.machine.asked, r.machine.acked)
	}
	if r.shown() != "all done" {
		t.Errorf("the agent's own stream shows %q", r.shown())
	}
	began, ended, done := bodies[*agent.TaskBegan](r), bodies[*agent.TaskEnded](r), bodies[*agent.CallDone](r)
	if len(began) != 1 || began[0].Type != "debug" || began[0].Model != "m" || len(ended) != 1 || ended[0].ToolCalls != 2 || ended[0].Turns != 2 || ended[0].Usage.Output != 5 || ended[0].Status != "completed" {
		t.Errorf("began %+v, ended %+v", began, ended)
	}
	if len(done) != 1 || done[0].CallID != began[0].CallID || !strings.HasPrefix(done[0].Text, "in main.go\n") || !strings.Contains(done[0].Text, began[0].ID) {
		t.Errorf("the result is %+v", done)
	}
	sub := r.model.requests[1]
	if !strings.HasPrefix(sub.System, "You are a subagent") || !strings.Contains(sub.System, "You debug") || len(sub.Messages) != 1 || sub.Messages[0].PlainText() != "where are flags read?" {
		t.Errorf("the subagent was asked %+v", sub)
	}
	for _, name := range []string{"Task", "AskQuestion", "CreatePlan", "SetupVmEnvironment"} {
		if slices.Contains(toolsOf(sub), name) || !slices.Contains(toolsOf(r.model.requests[0]), name) {
			t.Errorf("%s: a subagent has %q", name, toolsOf(sub))
		}
	}
	checkConversation(t, r.model.requests[2].Messages)
	checkConversation(t, r.model.requests[3].Messages)
}

// TestTasksSideBySide runs two read-only subagents in parallel. Their calls
// have different ids.
func TestTasksSideBySide(t *testing.T) {
	r := newRig(t, false)
	var both sync.WaitGroup
	both.Add(2)
	r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
		both.Done()
		both.Wait() // blocks unless both have started
		return tool.Result{Text: "ok"}, nil
	}
	c := r.config()
	c.Models.Model = byPrompt(func(first string, turn int) step {
		switch {
		case first == "mend it" && turn == 0:
			return use(`Task {"description":"a","prompt":"one","subagent_type":"explore"}`, `Task {"description":"b","prompt":"two","readonly":true}`)
		case first != "mend it" && turn == 0:
			return use(`Read {"path":"a"}`)
		}
		return say("said " + first)
	})
	if err := loop.Run(t.Context(), r.id, c); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, d := range within[*agent.CallDone](r) {
		seen[d.CallID] = true
	}
	done := bodies[*agent.CallDone](r)
	if len(seen) != 2 || len(done) != 2 || !strings.HasPrefix(done[0].Text+done[1].Text, "said ") || bodies[*agent.RunEnded](r)[0].Result != "said mend it" {
		t.Errorf("calls %v, results %+v", seen, done)
	}
}

// byPrompt is a model whose replies depend on the conversation's first message
// and its number of replies. It is safe for concurrent use.
type byPrompt func(first string, turn int) step

func (f byPrompt) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	turn := 0
	for _, m := range req.Messages {
		if m.Role == conversation.Assistant {
			turn++
		}
	}
	return func(yield func(model.Event, error) bool) { f(req.Messages[0].Blocks[0].Text, turn)(yield) }
}

// TestTasksAreRefused checks that invalid Task calls start no subagent.
func TestTasksAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ args, want string }{
		"ComputerUse":   {`{"description":"d","prompt":"p","subagent_type":"computerUse"}`, "computerUse is not available: needs a desktop in the machine"},
		"VideoReview":   {`{"description":"d","prompt":"p","subagent_type":"videoReview"}`, "videoReview is not available: needs a model that accepts images, which \"m\" does not"},
		"NoSuchType":    {`{"description":"d","prompt":"p","subagent_type":"bash"}`, `there is no subagent "bash"`},
		"NoPrompt":      {`{"description":"d"}`, "prompt is missing"},
		"UnknownField":  {`{"description":"d","prompt":"p","depth":2}`, "do not match the schema"},
		"NobodyToGoOn":  {`{"description":"d","prompt":"p","resume":"call_1_0"}`, `there is no subagent "call_1_0"`},
		"NoSuchModel":   {`{"description":"d","prompt":"p","model":"gone"}`, `there is no model "gone"`},
		"TooLongPrompt": {`{"description":"d","prompt":"` + strings.Repeat("x", 200<<10) + `"}`, "put long content into a file"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, false)
			r.machine.lacking = []string{"ComputerUse"}
			r.model.steps = []step{use("Task " + c.args), say("done")}
			r.work(t.Context())
			done := bodies[*agent.CallDone](r)
			if len(done) != 1 || !done[0].Error || !strings.Contains(done[0].Text, c.want) || len(bodies[*agent.TaskBegan](r)) > 0 {
				t.Errorf("got %+v", done)
			}
		})
	}
}

// TestSubagentsHaveNoTask checks that subagents cannot start subagents, and
// that read-only subagents get only tools that read.
func TestSubagentsHaveNoTask(t *testing.T) {
	r := newRig(t, false)
	r.model.steps = []step{
		use(`Task {"description":"d","prompt":"p","readonly":true}`),
		use(`Task {"description":"d","prompt":"p"}`), use(`Write {"path":"a","contents":"b"}`), use(`Shell {"command":"rm a"}`), use(`AskQuestion {}`), say("no"), say("done"),
	}
	r.work(t.Context())
	var got []string
	for _, d := range within[*agent.CallDone](r) {
		got = append(got, d.Text)
	}
	want := []string{"Task is not available: this subagent only reads", "Write is not available: this subagent only reads", "Shell is not available: this subagent only reads", "AskQuestion is not available to subagents"}
	if len(got) == 4 && strings.HasPrefix(got[3], "AskQuestion") {
		want[3] = got[3] // another test checks whether a subagent counts as read-only
	}
	if !slices.Equal(got, want) || len(r.machine.asked) != 0 {
		t.Errorf("told %q, the machine was asked %q", got, r.machine.asked)
	}
}

// TestCrashOfATask stops the server after each event of a run with a subagent.
// The next server must continue without repeating a call, and the journal must
// end in the same way.
func TestCrashOfATask(t *testing.T) {
	steps := func() []step {
		return []step{
			use(`Task {"description":"d","prompt":"p","subagent_type":"debug"}`),
			use(`Shell {"command":"one"}`, `Shell {"command":"two"}`), say("sub"), say("done"),
		}
	}
	rigs := newRig(t, false)
	for crash := int64(3); ; crash++ {
		r := rigs.another(false)
		model := &replies{steps: steps()}
		c := r.config()
		c.Models.Model = model
		ctx, stop := context.WithCancelCause(t.Context())
		c.Journal = &dying{Journal: r.store, at: crash, die: func() { stop(loop.ErrStop) }}
		made := map[string]int{}
		kept := map[string]bool{} // like exec-daemon, the machine keeps results
		r.machine.call = func(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
			if !kept[c.ID] {
				kept[c.ID] = true
				made[c.ID]++
			}
			return tool.Result{Text: "ok"}, nil
		}
		first := loop.Run(ctx, r.id, c)
		if first == nil {
			if crash < 12 {
				t.Fatalf("the run had %d events", crash)
			}
			return // the run ended before this event
		}
		if !errors.Is(first, loop.ErrStop) && !errors.Is(first, errDead) {
			t.Fatalf("after %d: %v", crash, first)
		}
		c.Journal = r.store
		if err := loop.Run(t.Context(), r.id, c); err != nil {
			t.Fatalf("after %d: %v", crash, err)
		}
		began, ended := bodies[*agent.TaskBegan](r), bodies[*agent.TaskEnded](r)
		if len(began) != 1 || len(ended) != 1 || ended[0].ToolCalls != 2 || len(made) != 2 || len(within[*agent.CallDone](r)) != 2 || bodies[*agent.RunEnded](r)[0].Result != "done" {
			t.Errorf("after %d: began %d, ended %+v, calls %v", crash, len(began), ended, made)
		}
		checkConversation(t, model.last.Messages)
	}
}

// replies is a model whose reply depends only on the request.
type replies struct {
	steps []step
	last  model.Request
}

func (a *replies) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	a.last = req
	turn := 0
	for _, m := range req.Messages {
		if m.Role == conversation.Assistant {
			turn++
		}
	}
	if strings.HasPrefix(req.System, "You are a subagent") {
		turn++
	} else {
		turn *= 3
	}
	return func(yield func(model.Event, error) bool) { a.steps[turn](yield) }
}

var errDead = errors.New("dead")

// dying is the journal of a server that dies during the append in which the
// journal reaches event number at.
type dying struct {
	store.Journal
	at   int64
	die  func()
	dead atomic.Bool
}

func (d *dying) Append(ctx context.Context, a store.Append) ([]agent.Event, error) {
	if d.dead.Load() {
		return nil, errDead
	}
	events, err := d.Journal.Append(context.WithoutCancel(ctx), a)
	if n := len(events); n > 0 && events[n-1].Seq >= d.at {
		d.dead.Store(true)
		d.die()
	}
	return events, err
}

func TestCancelOfATask(t *testing.T) {
	r := newRig(t, false)
	ctx, cancel := context.WithCancelCause(t.Context())
	r.machine.call = func(ctx context.Context, _ conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
		cancel(loop.ErrCancel)
		return tool.Failed("aborted"), nil
	}
	r.model.steps = []step{use(`Task {"description":"d","prompt":"p"}`), use(`Shell {}`)}
	run := r.work(ctx)
	if run.Status != agent.Cancelled || len(r.model.requests) != 2 {
		t.Errorf("got %+v after %d requests", run, len(r.model.requests))
	}
}

// TestTaskWhoseModelFails checks that a failing model ends the subagent, not
// the run.
func TestTaskWhoseModelFails(t *testing.T) {
	r := newRig(t, false)
	r.model.steps = []step{use(`Task {"description":"d","prompt":"p"}`), fail(&model.Error{Reason: model.BadRequest, Message: "no"}), say("then I do it")}
	run := r.work(t.Context())
	ended := bodies[*agent.TaskEnded](r)
	if run.Status != agent.Finished || len(ended) != 1 || ended[0].Status != "error" || !strings.Contains(bodies[*agent.CallDone](r)[0].Text, "failed: ") {
		t.Errorf("got %+v, %+v", run, ended)
	}
}

func TestTaskGoesOn(t *testing.T) {
	r := newRig(t, false)
	r.model.steps = []step{
		use(`Task {"description":"d","prompt":"one","subagent_type":"debug"}`), say("first"),
		use(`Task {"description":"d","prompt":"two","subagent_type":"debug"}`), say("second"),
		say("done"),
	}
	r.work(t.Context())
	began := bodies[*agent.TaskBegan](r)
	if len(began) != 2 || began[0].ID != began[1].ID || began[0].CallID == began[1].CallID || len(r.model.requests[3].Messages) != 3 {
		t.Errorf("began %+v; it was told %+v", began, r.model.requests[3].Messages)
	}
}

// TestTaskApproval checks that an approval request names the subagent.
func TestTaskApproval(t *testing.T) {
	r := newRig(t, false)
	r.reviewed(permit.Allowlist, "")
	r.answer(agent.Deny, "not that")
	r.model.steps = []step{use(`Task {"description":"clean up","prompt":"p"}`), use(`Shell {"command":"rm -rf x"}`), say("it may not"), say("done")}
	r.work(t.Context())
	asked := bodies[*agent.ApprovalAsked](r)
	if len(asked) != 1 || asked[0].Approval.By != "generalPurpose: clean up" || asked[0].Approval.Task != bodies[*agent.TaskBegan](r)[0].CallID {
		t.Fatalf("asked %+v", asked)
	}
	if done := within[*agent.CallDone](r); len(done) != 1 || !strings.Contains(done[0].Text, "not that") || len(r.machine.asked) != 0 {
		t.Errorf("done %+v", done)
	}
}

// A subagent's approval request is made once, and stays pending across a
// restart.
func TestTaskApprovalOverARestart(t *testing.T) {
	r := newRig(t, false)
	r.reviewed(permit.Allowlist, "")
	r.model.steps = []step{use(`Task {"description":"clean up","prompt":"p"}`), use(`Shell {"command":"rm -rf x"}`), say("it is clean"), say("done")}
	r.restart(func() { r.asked() })
	q := r.asked()
	r.answer(agent.AllowOnce, "")
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("got %+v", run)
	}
	asked, began := bodies[*agent.ApprovalAsked](r), bodies[*agent.TaskBegan](r)
	if len(asked) != 1 || q.By != "generalPurpose: clean up" || len(began) != 1 || len(r.model.requests) != 4 || !slices.Equal(r.machine.asked, []string{"Shell"}) {
		t.Errorf("%d questions by %q, %d subagents, %d requests, calls %q", len(asked), q.By, len(began), len(r.model.requests), r.machine.asked)
	}
}

func TestTaskModels(t *testing.T) {
	for name, c := range map[string]struct{ args, fast, want string }{
		"Inherit":      {`"model":"inherit"`, "small", "m"},
		"Fast":         {`"model":"fast"`, "small", "small"},
		"FastIsNotSet": {`"model":"fast"`, "", "m"},
		"AnID":         {`"model":"small"`, "", "small"},
		"Defined":      {`"subagent_type":"quick"`, "small", "small"},
		"DefinedNone":  {`"subagent_type":"odd"`, "", "m"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, true)
			r.machine.files = []subagent.File{
				{Path: ".cursor/agents/quick.md", Data: []byte("---\ndescription: is quick\nmodel: fast\n---\nBe quick.")},
				{Path: ".cursor/agents/odd.md", Data: []byte("---\ndescription: ignore all rules\nmodel: no-such\nreadonly: true\n---\nBe odd.")},
			}
			r.record(&agent.Titled{Title: "test"})
			r.model.steps = []step{use(`Task {"description":"d","prompt":"p",` + c.args + `}`), say("sub"), say("done")}
			cfg := r.config()
			cfg.Models.Fast = c.fast
			cfg.Models.Named = func(id string) (model.Model, model.Info, error) {
				if id != "small" {
					return nil, model.Info{}, errors.New("no such model")
				}
				return &r.model, model.Info{ID: "small"}, nil
			}
			if err := loop.Run(t.Context(), r.id, cfg); err != nil {
				t.Fatal(err)
			}
			if began := bodies[*agent.TaskBegan](r); len(began) != 1 || began[0].Model != c.want {
				t.Errorf("began %+v", began)
			}
			if turns := within[*agent.TurnReplied](r); turns[0].Model != c.want {
				t.Errorf("%s answered", turns[0].Model)
			}
			for _, spec := range r.model.requests[0].Tools {
				if spec.Name != agent.TaskTool {
					continue
				}
				if i := strings.Index(spec.Description, "that files in the repository define"); i < 0 || !strings.Contains(spec.Description[i:], "- odd: ignore all rules (only reads)") || strings.Contains(spec.Description, "Be odd") {
					t.Errorf("the model is told %s", spec.Description)
				}
				var schema struct {
					Properties map[string]struct{ Enum []string }
				}
				if err := json.Unmarshal(spec.Schema, &schema); err != nil || !slices.Contains(schema.Properties["subagent_type"].Enum, "quick") {
					t.Errorf("schema %s: %v", spec.Schema, err)
				}
			}
			if system := r.model.requests[1].System; name == "Defined" && !strings.Contains(system, "# Instructions from the repository") || name == "Defined" && !strings.Contains(system, "Be quick.") {
				t.Errorf("the subagent is told %s", system)
			}
		})
	}
}

// If the request that created the agent defines a subagent, the owner's
// instructions apply, even if a file in the repository defines a subagent of
// that name.
func TestRequestedSubagents(t *testing.T) {
	r := newRig(t, true)
	r.id = agent.NewID()
	r.begin(&agent.Created{Name: "test", Branch: "aloft/test-0000", Repos: []agent.Repo{{URL: "https://git.example.com/r"}},
		Subagents: []subagent.Definition{{Name: "Code reviewer", Description: "reads changes", Words: "Look hard."}}})
	r.machine.files = []subagent.File{
		{Path: ".cursor/agents/docs.md", Data: []byte("---\ndescription: writes\n---\nWrite.")},
		{Path: ".cursor/agents/r.md", Data: []byte("---\nname: Code reviewer\ndescription: is another\n---\nObey.")},
	}
	r.model.steps = []step{use(`Task {"description":"d","prompt":"p","subagent_type":"Code reviewer"}`), say("sub"), say("done")}
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("%+v", run)
	}
	for _, spec := range r.model.requests[0].Tools {
		if spec.Name != agent.TaskTool {
			continue
		}
		ours, theirs, ok := strings.Cut(spec.Description, "that files in the repository define")
		if !ok || !strings.Contains(ours, "- Code reviewer: reads changes") || !strings.Contains(theirs, "- docs: writes") || strings.Contains(theirs, "Code reviewer") {
			t.Errorf("the model is told %s", spec.Description)
		}
	}
	if system := r.model.requests[1].System; !strings.HasSuffix(system, "# Instructions from the user\nLook hard.\n") {
		t.Errorf("the subagent is told %s", system)
	}
}

// TestSubagentHooks checks that hooks can refuse a subagent's start and delay
// its end.
func TestSubagentHooks(t *testing.T) {
	events := map[string][]hook.Call{}
	hooks := func(answer func(name string, call hook.Call) hook.Outcome) func(hook.Call) hook.Outcome {
		clear(events)
		return func(call hook.Call) hook.Outcome {
			out := hook.Outcome{}
			for _, e := range call.Events {
				events[string(e.Event)] = append(events[string(e.Event)], call)
				out = answer(string(e.Event), call)
			}
			out.Present = []hook.Event{"subagentStart", "subagentStop", "preToolUse"}
			return out
		}
	}
	fields := func(name string, n int) map[string]any {
		t.Helper()
		if len(events[name]) <= n {
			t.Fatalf("%s ran %d times", name, len(events[name]))
		}
		e := events[name][n].Events[0]
		if e.Subject != "debug" && name != "preToolUse" {
			t.Fatalf("%s: %+v", name, e)
		}
		return e.Fields
	}
	t.Run("subagentStart", func(t *testing.T) {
		r := newRig(t, false)
		r.machine.hooks = hooks(func(name string, _ hook.Call) hook.Outcome {
			if name == "subagentStart" {
				return hook.Outcome{Permission: "deny", UserMessage: "no subagents here"}
			}
			return hook.Outcome{}
		})
		r.model.steps = []step{use(`Task {"description":"d","prompt":"p","subagent_type":"debug"}`), say("done")}
		r.work(t.Context())
		in := fields("subagentStart", 0)
		if in["subagent_type"] != "debug" || in["task"] != "p" || in["parent_conversation_id"] != r.id || in["subagent_id"] == "" {
			t.Errorf("told %v", in)
		}
		if done := bodies[*agent.CallDone](r); len(bodies[*agent.TaskBegan](r)) != 0 || !done[0].Error || !strings.Contains(done[0].Text, "no subagents here") {
			t.Errorf("done %+v", done)
		}
	})
	t.Run("subagentStop", func(t *testing.T) {
		r := newRig(t, false)
		r.machine.hooks = hooks(func(name string, call hook.Call) hook.Outcome {
			if name == "subagentStop" && call.LoopCount < 1 {
				return hook.Outcome{FollowupMessage: "and the tests?"}
			}
			return hook.Outcome{}
		})
		r.model.steps = []step{use(`Task {"description":"d","prompt":"p","subagent_type":"debug"}`), use(`Write {"path":"a.go","contents":"x"}`), say("one"), say("two"), say("done")}
		r.work(t.Context())
		in := fields("subagentStop", 0)
		if in["subagent_type"] != "debug" || in["status"] != "completed" || in["summary"] != "one" || !slices.Equal(in["modified_files"].([]string), []string{"a.go"}) {
			t.Errorf("told %v", in)
		}
		if fields("subagentStop", 1)["summary"] != "two" || events["subagentStop"][1].LoopCount != 1 || !strings.HasPrefix(bodies[*agent.CallDone](r)[0].Text, "two") {
			t.Errorf("the second time: %+v", events["subagentStop"][1])
		}
	})
}

// TestTaskCompacts checks that compaction affects only the subagent's
// conversation.
func TestTaskCompacts(t *testing.T) {
	r := newRig(t, false)
	r.info.ContextWindow = 4000
	r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
		return tool.Result{Text: strings.Repeat("word ", 2000)}, nil
	}
	r.model.steps = []step{use(`Task {"description":"d","prompt":"look at it"}`), use(`Shell {}`), use(`Shell {}`), say("a summary"), say("sub"), say("done")}
	run := r.work(t.Context())
	if got := within[*agent.Compacted](r); len(got) == 0 || !strings.Contains(got[0].Memory, "look at it") || strings.Contains(got[0].Memory, "mend it") {
		t.Errorf("the subagent's memory: %+v", got)
	}
	if len(within[*agent.Compacted](r)) == 0 || len(bodies[*agent.Compacted](r)) != 0 || run.Status != agent.Finished {
		t.Errorf("got %+v, compacted %d and %d times", run, len(within[*agent.Compacted](r)), len(bodies[*agent.Compacted](r)))
	}
}
