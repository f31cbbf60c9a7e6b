package memories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/forge/fake"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/conversation"
	"aloft/internal/memory"
)

const (
	host    = "git.test"
	repoURL = "https://git.test/acme/widget"
	repoKey = "git.test/acme/widget"
)

// byForge is the fake forge with pull requests by other people.
type byForge struct {
	*fake.Forge
	author string
}

func (f byForge) Get(ctx context.Context, r forge.Repo, number int) (forge.PullRequest, error) {
	p, err := f.Forge.Get(ctx, r, number)
	p.Author = f.author
	return p, err
}

type bench struct {
	*testing.T
	*Keeper
	store *sqlite.Store
	forge *fake.Forge
	user  account.User
	calls int
}

func newBench(t *testing.T, s account.Settings) *bench {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	b := &bench{T: t, store: db, forge: fake.New(host)}
	b.forge.Writers = []string{"ada"}
	r := b.forge.Add("acme/widget", "main")
	b.forge.Push(r, "topic")
	if _, err := b.forge.Open(t.Context(), forge.NewPullRequest{Repo: r, Head: "topic", Base: "main", Title: "Change"}); err != nil {
		t.Fatal(err)
	}
	if b.user, err = db.AddUser(t.Context(), account.User{Email: "ben@example.com", Role: account.Member}); err != nil {
		t.Fatal(err)
	}
	b.Keeper = &Keeper{Store: db, Logger: slog.New(slog.DiscardHandler)}
	b.set(s)
	b.by("ada")
	return b
}

func (b *bench) set(s account.Settings) {
	b.Helper()
	if err := store.PutSettings(b.Context(), b.store, account.History{}.With(s, time.Now())); err != nil {
		b.Fatal(err)
	}
}

// by sets the author of the pull request.
func (b *bench) by(author string) { b.Forges = forge.Set{host: byForge{b.forge, author}} }

// state returns the state of an agent on the repository, after the changes.
func (b *bench) state(change ...func(*agent.State)) *agent.State {
	s := &agent.State{Agent: agent.Agent{ID: "bc-1", UserID: b.user.ID}, Run: agent.Run{ID: "run-1"}}
	s.Agent.Repos = []agent.Repo{{URL: repoURL}}
	for _, c := range change {
		c(s)
	}
	return s
}

func onPull(s *agent.State)   { s.Agent.Repos[0].PullRequest, s.OnPull = repoURL+"/pull/1", true }
func quoted(s *agent.State)   { s.Quoted = true }
func another(s *agent.State)  { s.Agent.ID = "bc-2" }
func forked(s *agent.State)   { s.Fork, s.OnPull = &agent.Forked{}, true }
func reviewer(s *agent.State) { s.Review, s.Agent.Env.Preset = &agent.ReviewTask{}, agent.Reviewer }

// call runs a call of UpdateMemory, and again with the same id, as after a crash.
func (b *bench) call(s *agent.State, args map[string]string) string {
	b.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		b.Fatal(err)
	}
	b.calls++
	c := conversation.ToolCall{ID: fmt.Sprintf("call_%d_0", b.calls), Name: "UpdateMemory", Args: data}
	first, err := b.Update(b.Context(), c, s)
	if err != nil {
		b.Fatal(err)
	}
	if again, err := b.Update(b.Context(), c, s); err != nil || args["action"] != "delete" && again.Text != first.Text {
		b.Errorf("repeated: %q, %v; at first %q", again.Text, err, first.Text)
	}
	if first.Error {
		return "refused: " + first.Text
	}
	return first.Text
}

// given returns the texts of the memories that an agent gets.
func (b *bench) given(s *agent.State) (texts []string) {
	b.Helper()
	rules, err := b.Rules(b.Context(), s.Agent)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range rules {
		_, text, _ := strings.Cut(r.Text, "\n")
		texts = append(texts, text)
	}
	return texts
}

func (b *bench) all() []memory.Memory {
	b.Helper()
	all, err := b.store.ListMemories(b.Context(), repoKey)
	if err != nil {
		b.Fatal(err)
	}
	return all
}

var build = map[string]string{"title": "Build", "knowledge_to_store": "run make\u200b first"}

// TestWhoMayWrite checks which agents may write memories, and whose need approval.
func TestWhoMayWrite(t *testing.T) {
	t.Parallel()
	on, review := account.Settings{Memory: account.MemoryOn}, account.Settings{Memory: account.MemoryReview}
	for name, c := range map[string]struct {
		settings account.Settings
		author   string
		change   []func(*agent.State)
		needs    string // "" if it may write
		waits    bool   // for approval
	}{
		"Off":             {account.Settings{}, "ada", nil, "a repository for which the team's setting memory is on", false},
		"OtherRepository": {account.Settings{Memory: account.MemoryOn, MemoryRepos: "git.test/acme/other"}, "ada", nil, "a repository for which", false},
		"On":              {on, "ada", nil, "", false},
		"Review":          {review, "ada", nil, "", true},
		"Event":           {on, "ada", []func(*agent.State){quoted}, "", true},
		"Reviewer":        {on, "ada", []func(*agent.State){reviewer}, "an agent that does not review", false},
		"WritersPull":     {on, "ada", []func(*agent.State){onPull}, "", false},
		"StrangersPull":   {on, "eve", []func(*agent.State){onPull}, "eve may not write to acme/widget", false},
		"BotsPull":        {on, "x[bot]", []func(*agent.State){onPull}, "x[bot] is a bot", false},
		"ForkOfPull":      {on, "ada", []func(*agent.State){forked}, "not forked", false},
		"NoRepository":    {on, "ada", []func(*agent.State){func(s *agent.State) { s.Agent.Repos = nil }}, "a repository", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.settings)
			b.by(c.author)
			s := b.state(c.change...)
			needs, err := b.Unavailable(t.Context(), s)
			if err != nil || (needs == "") != (c.needs == "") || !strings.Contains(needs, c.needs) {
				t.Fatalf("needs %q, %v; want %q", needs, err, c.needs)
			}
			if needs != "" {
				return
			}
			said := b.call(s, build)
			if want := map[bool]string{true: "is proposed", false: "applies to later agents"}[c.waits]; !strings.Contains(said, want) {
				t.Errorf("the agent is told %q, want %q", said, want)
			}
			all := b.all()
			if len(all) != 1 || all[0].Approved() == c.waits || (all[0].Proposal != nil) != c.waits {
				t.Errorf("stored %+v", all)
			}
		})
	}
}

// TestWhoIsGiven checks which agents get approved memories.
func TestWhoIsGiven(t *testing.T) {
	t.Parallel()
	on := account.Settings{Memory: account.MemoryOn}
	b := newBench(t, on)
	b.call(b.state(), build)
	b.call(b.state(another, quoted), map[string]string{"title": "Evil", "knowledge_to_store": "obey"})
	for name, c := range map[string]struct {
		author string
		change []func(*agent.State)
		want   string
	}{
		"Later":         {"ada", nil, "[run make first]"},
		"StrangersPull": {"eve", []func(*agent.State){onPull}, "[]"},
		"WritersPull":   {"ada", []func(*agent.State){onPull}, "[run make first]"},
		"Reviewer":      {"ada", []func(*agent.State){reviewer}, "[]"},
		"Elsewhere":     {"ada", []func(*agent.State){func(s *agent.State) { s.Agent.Repos[0].URL = "https://git.test/acme/widgets" }}, "[]"},
	} {
		b.by(c.author)
		if got := fmt.Sprint(b.given(b.state(c.change...))); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	b.by("ada")
	b.forge.Fail(errors.New("down"))
	if got := b.given(b.state(onPull)); len(got) > 0 {
		t.Errorf("while the forge is down, an agent on a pull request gets %q", got)
	}
	b.set(account.Settings{})
	if got := b.given(b.state()); len(got) > 0 {
		t.Errorf("with the setting off, an agent gets %q", got)
	}
	b.set(on)
	if err := store.SetAccess(t.Context(), b.store, account.Access{Limited: true}); err != nil {
		t.Fatal(err)
	}
	if got := b.given(b.state()); len(got) > 0 {
		t.Errorf("the agent of a user without access to the repository gets %q", got)
	}
	if needs, err := b.Unavailable(t.Context(), b.state()); needs == "" || err != nil {
		t.Errorf("the agent of a user without access may write: %v", err)
	}
}

// TestReview follows a memory through proposals, which other agents can neither see nor
// change.
func TestReview(t *testing.T) {
	t.Parallel()
	b := newBench(t, account.Settings{Memory: account.MemoryReview})
	one, two := b.state(), b.state(another)
	b.call(one, build)
	id := b.all()[0].ID
	update := map[string]string{"action": "update", "existing_knowledge_id": id, "title": "Build", "knowledge_to_store": "run ninja"}
	if said := b.call(two, update); !strings.Contains(said, "has no memory") {
		t.Errorf("another agent changes a proposal: %s", said)
	}
	b.call(one, update)
	m := b.all()[0]
	if m.Approved() || m.Proposal.Text != "run ninja" || len(b.given(one)) > 0 {
		t.Fatalf("stored %+v", m)
	}
	m.Accept(b.user.ID, time.Now())
	if err := b.store.PutMemory(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(b.given(two)); got != "[run ninja]" {
		t.Errorf("after the approval, another agent gets %s", got)
	}
	remove := map[string]string{"action": "delete", "existing_knowledge_id": id}
	b.call(two, remove)
	if got := fmt.Sprint(b.given(two)); got != "[run ninja]" || !b.all()[0].Proposal.Delete {
		t.Errorf("a proposed deletion: agents get %s", got)
	}
	if said := b.call(one, remove); !strings.Contains(said, "another agent has proposed") {
		t.Errorf("an agent replaces the proposal of another one: %s", said)
	}
	b.set(account.Settings{Memory: account.MemoryOn})
	b.call(one, remove)
	if all := b.all(); len(all) > 0 {
		t.Errorf("with the setting on, a deletion leaves %+v", all)
	}
}

// TestRefused checks calls that have no effect.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, account.Settings{Memory: account.MemoryOn})
	s := b.state()
	b.call(s, build)
	id := b.all()[0].ID
	for _, c := range []struct {
		args map[string]string
		want string
	}{
		{map[string]string{"title": "build", "knowledge_to_store": "x"}, "there is already a memory with this title: update " + id},
		{map[string]string{"title": "x", "knowledge_to_store": "\u202e"}, "the text is empty"},
		{map[string]string{"action": "forget"}, `action is "forget"; must be create, update or delete`},
		{map[string]string{"action": "update", "title": "x", "knowledge_to_store": "x"}, "existing_knowledge_id is missing"},
		{map[string]string{"action": "update", "title": "x", "knowledge_to_store": "x", "existing_knowledge_id": "mem-0"}, `has no memory "mem-0"`},
		{map[string]string{"action": "delete", "existing_knowledge_id": id, "title": "x"}, "only for create and update"},
		{map[string]string{"title": "x", "knowledge_to_store": "x", "existing_knowledge_id": id}, "only for update and delete"},
		{map[string]string{"title": "x", "knowledge_to_store": "x", "repo_url": "https://git.test/acme/other"}, "git.test/acme/other is not a repository of this task"},
		{map[string]string{"title": "x", "memory": "x"}, "do not match the schema"},
	} {
		if said := b.call(s, c.args); !strings.HasPrefix(said, "refused: ") || !strings.Contains(said, c.want) {
			t.Errorf("%v: %q, want %q", c.args, said, c.want)
		}
	}
	for i := range memory.MaxPerRepo - 1 {
		b.call(s, map[string]string{"title": fmt.Sprint("t", i), "knowledge_to_store": "x"})
	}
	if said := b.call(s, map[string]string{"title": "one more", "knowledge_to_store": "x"}); !strings.Contains(said, "100 memories, which is the limit") {
		t.Errorf("one more than the limit: %q", said)
	}
	if all := b.all(); len(all) != memory.MaxPerRepo || all[0].Text != "run make first" {
		t.Errorf("%d memories, the first %+v", len(all), all[0])
	}
}
