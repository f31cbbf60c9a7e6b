// Package storetest tests implementations of package store. A new store is
// complete when this suite passes against it.
package storetest

import (
	"errors"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

// Store is a store under test.
type Store = store.Store

// Run runs the suite against empty stores that open creates.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, part := range []struct {
		name  string
		tests []test
	}{
		{"Journal", journalTests},
		{"Wait", waitTests},
		{"Agents", agentTests},
		{"Leases", leaseTests},
		{"Accounts", accountTests},
		{"Secrets", secretTests},
		{"Builds", buildTests},
		{"Environments", environmentTests},
		{"Snapshots", snapshotTests},
		{"Fold", foldTests},
		{"Rules", ruleTests},
		{"Webhooks", webhookTests},
		{"Replies", replyTests},
		{"Inbox", inboundTests},
		{"PullWatches", pullWatchTests},
		{"Topics", topicTests},
		{"Memories", memoryTests},
		{"Automations", automationTests},
		{"Sizes", sizeTests},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, tt := range part.tests {
				t.Run(tt.name, func(t *testing.T) {
					t.Parallel()
					tt.run(t, open(t))
				})
			}
		})
	}
}

type test struct {
	name string
	run  func(*testing.T, Store)
}

// patience is how long a test waits for an event. A test reaches it only if
// something is broken.
const patience = 2 * time.Minute

func ptr(n int64) *int64 { return &n }

// newAgent creates an agent with an open run.
func newAgent(t testing.TB, s store.Journal) (agentID, runID string) {
	t.Helper()
	agentID, runID = agent.NewID(), agent.NewRunID()
	mustAppend(t, s, store.Append{AgentID: agentID, IfHead: ptr(0), Events: []agent.Event{
		{Body: &agent.Created{Name: "Fix the parser", UserID: 1, Env: agent.Env{Type: "cloud"}}},
		prompt(runID),
	}})
	return agentID, runID
}

func prompt(runID string) agent.Event {
	return agent.Event{RunID: runID, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "fix the parser")}}
}

func text(runID, words string) agent.Event {
	return agent.Event{RunID: runID, Body: &agent.TextDelta{Text: words}}
}

func mustAppend(t testing.TB, s store.Journal, a store.Append) []agent.Event {
	t.Helper()
	events, err := s.Append(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// readAll reads the journal in small pieces.
func readAll(t testing.TB, s store.Journal, agentID string) []agent.Event {
	t.Helper()
	var all []agent.Event
	for {
		var after int64
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		events, err := s.Read(t.Context(), agentID, after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			return all
		}
		all = append(all, events...)
	}
}

func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error is %v; want one that is %q", what, err, want)
	}
}
