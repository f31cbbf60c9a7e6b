package loop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/rule"
	"aloft/internal/tool"
)

// repoRules are a repository's rules by folder.
var repoRules = map[string]rule.Set{
	"": {Rules: []rule.Rule{
		{Source: "AGENTS.md", From: rule.Repository, When: rule.Always, Text: "Text of AGENTS.md."},
		{Source: ".cursor/rules/go.mdc", From: rule.Repository, When: rule.OnFiles, Globs: []string{"*.go"}, Text: "Text for Go files."},
		{Source: ".cursor/rules/manual.mdc", From: rule.Repository, When: rule.OnMention, Text: "Text of a rule by name."},
		{Source: ".cursor/rules/db.mdc", From: rule.Repository, When: rule.OnRequest, Description: "How to migrate", Text: "Text of migrations."},
	}, LeftOut: []rule.LeftOut{{Source: "CLAUDE.md", Why: "is not a text file"}}},
	"web": {Rules: []rule.Rule{{Source: "web/AGENTS.md", From: rule.Repository, When: rule.Always, Folder: "web", Nested: true, Text: "Text of web."}}},
}

func (r *rig) withRules(t *testing.T) {
	t.Helper()
	r.machine.rules = func(f rule.Folder) rule.Set { return repoRules[f.Path] }
	r.change = func(c *loop.Config) {
		c.Team.Rules = func(context.Context, agent.Agent) ([]rule.Rule, error) {
			return []rule.Rule{{Source: rule.File, From: rule.Team, When: rule.Always, Text: "Text of the team."}, {Source: rule.File, From: rule.User, When: rule.Always, Text: "Text of the user."}}, nil
		}
	}
}

// heardAll returns the text of all messages in a request.
func heardAll(req model.Request) string {
	var b strings.Builder
	for _, m := range req.Messages {
		for _, block := range m.Blocks {
			b.WriteString(block.Text + "\n")
		}
	}
	return b.String()
}

// wantOnce fails unless the request contains each of the texts once, and none
// of the texts in not.
func wantOnce(t *testing.T, req model.Request, what string, texts []string, not ...string) {
	t.Helper()
	heard := heardAll(req)
	for _, text := range texts {
		if n := strings.Count(heard, text); n != 1 {
			t.Errorf("%s: %q stands %d times in\n%s", what, text, n, heard)
		}
	}
	for _, text := range not {
		if strings.Contains(heard, text) {
			t.Errorf("%s: %q should not be there", what, text)
		}
	}
}

func TestRulesAreGivenWhenTheyApply(t *testing.T) {
	r := newRig(t, true)
	r.withRules(t)
	always := []string{"Text of the team.", "Text of AGENTS.md.", "Text of the user.", "/workspace/.cursor/rules/db.mdc: How to migrate", "CLAUDE.md: is not a text file"}
	r.model.steps = []step{
		use(`Read {"path":"README.md"}`),
		use(`Read {"path":"/workspace/cmd/main.go"}`, `LS {"path":"/etc"}`),
		use(`Write {"path":"web/x.ts","contents":""}`),
		use(`Read {"path":"web/y.go"}`),
		say("done"),
	}
	r.work(t.Context())
	q := r.model.requests
	wantOnce(t, q[0], "start", always, "Text for Go files.", "Text of web.", "Text of a rule by name.", "Text of migrations.")
	wantOnce(t, q[1], "a file without rules", always, "Text for Go files.")
	wantOnce(t, q[2], "a Go file", append(always, "Text for Go files."), "Text of web.")
	wantOnce(t, q[3], "a folder with rules", append(always, "Text for Go files.", "Text of web."))
	wantOnce(t, q[4], "again", append(always, "Text for Go files.", "Text of web."), "Text of a rule by name.")
	if at, back := strings.Index(heardAll(q[0]), "of the team."), strings.Index(heardAll(q[0]), "of the user."); at > back {
		t.Error("the team's rules come after the user's")
	}
	reads := slices.DeleteFunc(slices.Clone(r.machine.asked), func(s string) bool { return !strings.HasPrefix(s, "rules of") })
	if want := []string{"rules of /", "rules of /README.md", "rules of /cmd", "rules of /cmd/main.go", "rules of /web", "rules of /web/x.ts", "rules of /web/y.go"}; !slices.Equal(reads, want) {
		t.Errorf("read %q, want %q", reads, want)
	}
	if found := bodies[*agent.RulesFound](r); len(found) != 2 || len(found[0].Rules) != 6 || !found[1].Nested {
		t.Errorf("journaled %+v", found)
	}
	if given := bodies[*agent.RulesGiven](r); len(given) != 3 {
		t.Errorf("%d messages are journaled", len(given))
	}
	// The classifier sees only the prompts. Rules must not count as prompts.
	if s := agent.Fold(r.id, r.events()); !slices.Equal(s.Asked, []string{"mend it"}) {
		t.Errorf("rules count as requests of the user: %q", s.Asked)
	}
}

func TestRulesAreGivenAgainAfterEachCompaction(t *testing.T) {
	r := newRig(t, true)
	r.withRules(t)
	r.info.ContextWindow = 20_000
	full := strings.Repeat("lorem ipsum ", 20_000*4/12*9/10) // the output takes nine tenths of the window
	r.machine.call = func(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
		if c.Name == "Shell" {
			return tool.Result{Text: full}, nil
		}
		return tool.Result{Text: "ok"}, nil
	}
	r.model.steps = []step{
		use(`Read {"path":"main.go"}`), use(`Shell {"command":"make"}`), say("a summary"), use(`Shell {"command":"make"}`), say("another summary"), use(`Read {"path":"other.go"}`), say("done"),
	}
	r.work(t.Context())
	if n := len(bodies[*agent.Compacted](r)); n != 2 {
		t.Fatalf("%d compactions", n)
	}
	for i, q := range r.model.requests[3:] {
		if len(q.Tools) > 0 {
			wantOnce(t, q, "after a compaction", []string{"Text of the team.", "Text of AGENTS.md.", "Text of the user.", "Text for Go files.", "/workspace/.cursor/rules/db.mdc: How to migrate"}, "Text of web.")
		} else if i == 0 {
			t.Error("the first request is a summary")
		}
	}
}

func TestRulesOfTheNextRun(t *testing.T) {
	r := newRig(t, true)
	r.withRules(t)
	r.model.steps = []step{use(`Read {"path":"web/a.ts"}`), say("done"), say("done"), say("done")}
	r.work(t.Context())
	followUp := func(prompt string) {
		r.run = agent.NewRunID()
		r.append(store.Append{AgentID: r.id, Events: []agent.Event{{RunID: r.run, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, prompt)}}}})
		r.work(t.Context())
	}
	followUp("as @manual says")
	wantOnce(t, r.model.requests[2], "unchanged rules", []string{"Text of AGENTS.md.", "Text of web.", "Text of a rule by name."})
	if n := len(bodies[*agent.RulesFound](r)); n != 2 {
		t.Errorf("unchanged rules are journaled again: %d", n)
	}
	changed := map[string]rule.Set{"web": repoRules["web"], "": {Rules: []rule.Rule{{Source: "AGENTS.md", From: rule.Repository, When: rule.Always, Text: "New text."}}}}
	r.machine.rules = func(f rule.Folder) rule.Set { return changed[f.Path] }
	followUp("go on")
	wantOnce(t, r.model.requests[3], "a changed rule", []string{"New text.", "replace their earlier versions: AGENTS.md", "Text of web."})
	s := agent.Fold(r.id, r.events())
	if len(s.Applied) != 4 {
		t.Errorf("a compaction would keep %+v", s.Applied)
	}
}

// If a server starts in the middle of a run, the model gets no rule twice.
func TestRulesAfterARestart(t *testing.T) {
	r := newRig(t, true)
	r.withRules(t)
	reached, hold := make(chan struct{}), make(chan struct{})
	r.model.steps = []step{
		use(`Read {"path":"web/a.go"}`),
		func(yield func(model.Event, error) bool) {
			close(reached)
			<-hold
			yield(model.Event{}, errors.New("the server is gone"))
		},
		use(`Read {"path":"web/b.go"}`),
		say("done"),
	}
	r.restart(func() { <-reached; close(hold) })
	if run, err := r.store.Run(t.Context(), r.id, r.run); err == nil && !run.Status.Ended() {
		r.work(t.Context())
	}
	last := r.model.requests[len(r.model.requests)-1]
	wantOnce(t, last, "after a restart", []string{"Text of the team.", "Text of AGENTS.md.", "Text for Go files.", "Text of web."})
}

func TestSubagentsGetRules(t *testing.T) {
	r := newRig(t, true)
	r.withRules(t)
	r.model.steps = []step{
		use(`Task {"description":"look","prompt":"look as @manual says","subagent_type":"explore"}`),
		use(`Read {"path":"a.go"}`), say("found"), say("done"),
	}
	r.work(t.Context())
	q := r.model.requests
	wantOnce(t, q[1], "the subagent's start", []string{"Text of the team.", "Text of AGENTS.md.", "Text of a rule by name."}, "Text for Go files.")
	wantOnce(t, q[2], "the subagent at work", []string{"Text of AGENTS.md.", "Text for Go files."})
	wantOnce(t, q[3], "the agent", []string{"Text of AGENTS.md."}, "Text for Go files.", "Text of a rule by name.")
}

func TestRulesWithoutARepository(t *testing.T) {
	r := newRig(t, false)
	r.withRules(t)
	r.model.steps = []step{use(`Read {"path":"web/a.go"}`), say("done")}
	r.work(t.Context())
	wantOnce(t, r.model.requests[1], "no repository", []string{"Text of the team.", "Text of the user."}, "AGENTS.md")
	if slices.ContainsFunc(r.machine.asked, func(s string) bool { return strings.HasPrefix(s, "rules of") }) {
		t.Errorf("the machine was asked %q", r.machine.asked)
	}
}

// A rule of a pull request's branch is marked as such.
func TestRulesOfAPullRequest(t *testing.T) {
	r := newRig(t, true)
	r.id, r.run = agent.NewID(), agent.NewRunID()
	r.begin(&agent.Created{Name: "test", Repos: []agent.Repo{{URL: "https://git.example.com/r", PullRequest: "https://git.example.com/r/pull/7"}}})
	r.withRules(t)
	r.model.steps = []step{say("done")}
	r.work(t.Context())
	wantOnce(t, r.model.requests[0], "a pull request", []string{"branch of the pull request https://git.example.com/r/pull/7"})
}
