package loop_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"regexp"
	"slices"
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

// Sizes of TestFactsOutliveCompactions.
const (
	factTurns   = 2000
	factCount   = 30
	factsInTask = 5 // facts in the prompt; the others follow at regular intervals
	factWindow  = 40_000
	compactions = 5 // at least
)

// factForm matches a planted fact.
var factForm = regexp.MustCompile(`fact-(\d\d)-[a-z]{8}`)

// fact returns a text that the model needs later. Nothing else contains it.
func fact(n int) string {
	return fmt.Sprintf("fact-%02d-%s", n, strings.Repeat(string(rune('a'+n%26)), 8))
}

// TestFactsOutliveCompactions plants 30 facts in a run of 2,000 turns: in the prompt, in
// the arguments and results of calls, the todo list, project rules and names of changed files, at random turns. A fact is
// answerable if the model's request contains it. All of them must be, after each
// compaction. The summaries contain the facts that their requests contain, and
// nothing else, so the test measures what the loop keeps and shows to the model that
// summarizes.
func TestFactsOutliveCompactions(t *testing.T) {
	shared := newRig(t, false)
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("Seed", seed), func(t *testing.T) { witnessed(t, shared.another(false), seed) })
	}
}

// witnessed plants the facts at the positions of a seed.
func witnessed(t *testing.T, r *rig, seed uint64) {
	t.Helper()
	r.t, r.id, r.run = t, agent.NewID(), agent.NewRunID()
	p := &witness{t: t, due: map[int]bool{}}
	for random := rand.New(rand.NewPCG(seed, 0)); len(p.due) < factCount-factsInTask; { //nolint:gosec // the positions need not be secret
		p.due[1+random.IntN(factTurns)] = true
	}
	task := "Use these: "
	for range factsInTask {
		task += p.plant() + " "
	}
	head := int64(0)
	r.append(store.Append{AgentID: r.id, IfHead: &head, Events: []agent.Event{
		{Body: &agent.Created{Name: "test"}}, {RunID: r.run, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, task)}},
	}})
	r.info.ContextWindow = factWindow
	r.machine.call = p.result
	c := r.config()
	c.Models.Model = p
	if err := loop.Run(t.Context(), r.id, c); err != nil {
		t.Fatal(err)
	}
	if n := len(bodies[*agent.Compacted](r)); n < compactions {
		t.Errorf("%d compactions, want at least %d", n, compactions)
	}
	if p.turns < factTurns || p.planted != factCount {
		t.Fatalf("%d turns, %d facts", p.turns, p.planted)
	}
	t.Logf("%d of %d facts are answerable in the worst request after a compaction", p.planted-p.worst, p.planted)
}

// witness is a model that plants facts, and checks that its requests contain them.
type witness struct {
	t       *testing.T
	turns   int
	planted int
	owed    string       // fact for the next result
	worst   int          // most facts that a request lacked
	due     map[int]bool // the turns that plant a fact
	items   []string
}

func (p *witness) plant() string {
	p.planted++
	return fact(p.planted)
}

// known returns the facts that the messages contain.
func known(messages []conversation.Message) (facts []string) {
	for _, m := range messages {
		for _, b := range m.Blocks {
			text := b.Text
			switch {
			case b.Result != nil:
				text += b.Result.Text
			case b.Call != nil:
				text += string(b.Call.Args)
			}
			for _, f := range factForm.FindAllString(text, -1) {
				if !slices.Contains(facts, f) {
					facts = append(facts, f)
				}
			}
		}
	}
	return facts
}

// Stream implements [model.Model].
func (p *witness) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	facts := known(req.Messages)
	answer := say("The facts: " + strings.Join(facts, ", "))
	if len(req.Tools) > 0 {
		p.check(facts)
		answer = p.next()
	}
	return func(yield func(model.Event, error) bool) {
		answer(func(e model.Event, err error) bool {
			if e.Done != nil {
				e.Done.Usage = conversation.Usage{} // the loop estimates the size instead
			}
			return yield(e, err)
		})
	}
}

func (p *witness) check(facts []string) {
	lacks := 0
	for n := 1; n <= p.planted; n++ {
		if !slices.Contains(facts, fact(n)) {
			if lacks++; lacks > p.worst {
				p.worst = lacks
				p.t.Errorf("turn %d: %s is not answerable", p.turns, fact(n))
			}
		}
	}
}

// next returns the next turn, which plants a fact if one is due.
func (p *witness) next() step {
	p.turns++
	switch {
	case p.turns > factTurns:
		return say("done")
	case !p.due[p.turns]:
		return use(fmt.Sprintf(`Shell {"command":"make step-%d"}`, p.turns))
	}
	f := p.plant()
	switch p.planted % 5 {
	case 0:
		p.items = append(p.items, fmt.Sprintf(`{"id":"%d","content":"%s","status":"pending"}`, p.planted, f))
		return use(fmt.Sprintf(`TodoWrite {"merge":true,"todos":[%s]}`, p.items[len(p.items)-1]))
	case 1:
		return use(fmt.Sprintf(`Write {"path":"/workspace/%s.go","contents":"x"}`, f))
	case 2:
		p.owed = f
		return use(fmt.Sprintf(`Read {"path":"/workspace/d%d/AGENTS.md"}`, p.planted))
	case 3:
		p.owed = f
	case 4:
		return use(fmt.Sprintf(`Shell {"command":"echo %s"}`, f))
	}
	return use(fmt.Sprintf(`Shell {"command":"make fact-%d"}`, p.turns))
}

// result runs the calls in place of a machine.
func (p *witness) result(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
	text := fmt.Sprintf("%s %s\n%s", c.ID, p.owed, strings.Repeat("ok lorem ipsum\n", 20))
	p.owed = ""
	return tool.Result{Text: text}, nil
}
