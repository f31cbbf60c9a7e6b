package storetest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

var foldTests = []test{
	{"RowsAreTheFoldOfTheJournal", testFold},
}

// testFold appends random events to agents, and checks that every row equals
// the state folded from the journal.
func testFold(t *testing.T, s Store) {
	rapid.Check(t, func(rt *rapid.T) {
		l := &journalModel{t: rt, store: s, id: agent.NewID()}
		l.append(ptr(0), agent.Event{Body: l.created()})
		for range rapid.IntRange(0, 8).Draw(rt, "appends") {
			var events []agent.Event
			for range rapid.IntRange(1, 5).Draw(rt, "events") {
				events = append(events, l.event())
			}
			if rapid.Bool().Draw(rt, "bad") {
				l.refused(append(events[:len(events):len(events)], text("run-nobody", "no")))
			}
			l.append(nil, events...)
		}
		l.check(t)
	})
}

type journalModel struct {
	t     *rapid.T
	store Store
	id    string
	runs  []string
}

func (l *journalModel) append(head *int64, events ...agent.Event) {
	if _, err := l.store.Append(l.t.Context(), store.Append{AgentID: l.id, IfHead: head, Events: events}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *journalModel) refused(events []agent.Event) {
	if _, err := l.store.Append(l.t.Context(), store.Append{AgentID: l.id, Events: events}); err == nil {
		l.t.Fatal("an event of no run was taken")
	}
}

func (l *journalModel) created() *agent.Created {
	c := &agent.Created{
		Name: rapid.String().Draw(l.t, "name"), UserID: rapid.Int64Range(0, 3).Draw(l.t, "user"), Env: agent.Env{Type: "cloud"},
		Model: rapid.SampledFrom([]string{"", "house"}).Draw(l.t, "model"), WorkOnCurrentBranch: rapid.Bool().Draw(l.t, "current"),
		Pull: agent.PullRequestOptions{Auto: rapid.Bool().Draw(l.t, "auto"), Draft: rapid.Bool().Draw(l.t, "draft")},
	}
	if rapid.Bool().Draw(l.t, "repo") {
		c.Repos = []agent.Repo{{URL: "https://git.example.com/a/b", StartingRef: rapid.String().Draw(l.t, "ref")}}
	}
	return c
}

func (l *journalModel) event() agent.Event {
	if len(l.runs) == 0 || rapid.IntRange(0, 9).Draw(l.t, "new run") == 0 {
		l.runs = append(l.runs, agent.NewRunID())
		return prompt(l.runs[len(l.runs)-1])
	}
	tokens := rapid.Int64Range(0, 1000)
	usage := conversation.Usage{Input: tokens.Draw(l.t, "in"), Output: tokens.Draw(l.t, "out")}
	body := rapid.SampledFrom([]agent.Body{
		&agent.RunStarted{},
		&agent.RunStarted{Privacy: new(usage.Input%2 == 0)},
		&agent.TextDelta{Text: "word"},
		&agent.TurnReplied{Message: conversation.Text(conversation.Assistant, "hello"), Stop: "end", Usage: usage, Model: "m"},
		&agent.Compacted{Summary: "so far", Usage: usage},
		&agent.Pushed{RepoURL: "https://git.example.com/a/b", Branch: fmt.Sprint("aloft/", usage.Input%3), Commit: "c0ffee"},
		&agent.RunEnded{Status: agent.Finished, Result: "done"},
		&agent.RunEnded{Status: agent.Finished, Outcome: agent.Partly, Evidence: &agent.Evidence{
			Checks: []agent.CheckResult{{Check: agent.Check{Command: "make test", Source: agent.CheckOfRequest}, State: agent.CheckFailed, ExitCode: new(2), Output: "FAIL"}}, Rounds: 2,
		}},
		&agent.RunEnded{Status: agent.Failed, Failure: &agent.Failure{Code: "ref_not_found", Message: "no ref", Hint: "name one"}},
		&agent.MachineMade{MachineID: "m-1", Origin: fmt.Sprint("c0ffee", usage.Input%2), RulesAt: fmt.Sprint("feed", usage.Input%3)},
		&agent.PullRequestOpened{By: agent.PullByRun, PullRequest: agent.PullRequest{
			RepoURL: "https://git.example.com/a/b", Branch: fmt.Sprint("aloft/", usage.Input%3), URL: fmt.Sprint("https://git.example.com/a/b/pulls/", usage.Input%3), Number: usage.Input % 3, State: "open",
		}},
		&agent.PullRequestFailed{RepoURL: "https://git.example.com/a/b", Branch: fmt.Sprint("aloft/", usage.Input%3), By: agent.PullByRun, Failure: agent.Failure{Code: agent.CodeNoChanges}},
		&agent.PullRequestSeen{URL: fmt.Sprint("https://git.example.com/a/b/pulls/", usage.Input%3), State: "merged", Title: "t"},
		&agent.Archived{Archived: usage.Output%2 == 0},
	}).Draw(l.t, "body")
	if _, ok := body.(*agent.Archived); ok {
		return agent.Event{Body: body}
	}
	return agent.Event{RunID: rapid.SampledFrom(l.runs).Draw(l.t, "run"), Body: body}
}

func (l *journalModel) check(t *testing.T) {
	a := agent.Agent{ID: l.id}
	runs := map[string]*agent.Run{}
	for _, e := range readAll(t, l.store, l.id) {
		a.Apply(e)
		if e.RunID == "" {
			continue
		}
		if runs[e.RunID] == nil {
			runs[e.RunID] = &agent.Run{AgentID: l.id}
		}
		runs[e.RunID].Apply(e)
	}
	row, err := l.store.Agent(l.t.Context(), l.id)
	if err != nil {
		l.t.Fatal(err)
	}
	if diff := cmp.Diff(a, row, cmpopts.EquateEmpty()); diff != "" {
		l.t.Errorf("agent differs (-fold +row):\n%s", diff)
	}
	for _, id := range l.runs {
		row, err := l.store.Run(l.t.Context(), l.id, id)
		if err != nil {
			l.t.Fatal(err)
		}
		if diff := cmp.Diff(*runs[id], row, cmpopts.EquateEmpty()); diff != "" {
			l.t.Errorf("run differs (-fold +row):\n%s", diff)
		}
	}
}
