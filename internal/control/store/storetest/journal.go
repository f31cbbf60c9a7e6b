package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

var journalTests = []test{
	{"ReadGivesBackWhatWasAppended", testReadBack},
	{"AppendNumbersAndDates", testNumbers},
	{"TimeNeverGoesBack", testTimes},
	{"HeadThatHasMovedOnIsErrMoved", testMoved},
	{"HeadOfZeroMakesTheAgentOnce", testMakeOnce},
	{"AppendToNothingIsErrNotFound", testAppendToNothing},
	{"AppendThatFailsWritesNothing", testNothingOnError},
	{"NothingToAppendIsAnError", testAppendNothing},
	{"AppendThatIsCancelledWritesNothing", testAppendCancelled},
	{"ReadOfNothingIsEmpty", testReadNothing},
	{"ReadIsLimited", testReadLimit},
	{"ManyAppendToOneAgent", testOneAgent},
	{"OneOfManyWhoKnowTheHeadWins", testRace},
	{"AHundredAgentsAtOnce", testHundred},
}

func testReadBack(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	written := mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{
		{RunID: runID, Body: &agent.RunStarted{}},
		text(runID, "naïve \x00 \"text\" ✈"),
		{RunID: runID, Body: &agent.CallDone{
			CallID: "c1", Text: "done", Output: []byte(`{"success":{}}`), DurationMS: 3,
			Images: []conversation.Image{{MediaType: "image/png", Data: []byte{0, 1, 0xff}}},
		}},
		{Body: &agent.MachineLost{MachineID: "m", Reason: "killed"}},
		{Body: &agent.MachineHibernated{MachineID: "m"}},
		{Body: &agent.MachineWoken{MachineID: "m", BootID: "b", Alive: true}},
		{Body: &agent.MachineExpiring{MachineID: "m", At: time.Unix(1, 0).UTC()}},
		{Body: &agent.MachineExpired{MachineID: "m"}},
	}})
	all := readAll(t, s, agentID)
	if diff := cmp.Diff(written, all[2:]); diff != "" {
		t.Errorf("read differs from what was written (-written +read):\n%s", diff)
	}
}

func testNumbers(t *testing.T, s Store) {
	before := time.Now()
	agentID, runID := newAgent(t, s)
	given := time.Now().Add(time.Hour)
	dated := text(runID, "a")
	dated.Time, dated.Seq = given, 77
	mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{dated}})
	all := readAll(t, s, agentID)
	for i, e := range all {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has number %d", i+1, e.Seq)
		}
	}
	if got := all[0].Time; got.Before(before.Add(-time.Second)) || got.After(time.Now().Add(time.Second)) {
		t.Errorf("the store dated an event %v; it is %v", got, time.Now())
	}
	if got := all[2].Time; got.Sub(given).Abs() > time.Microsecond {
		t.Errorf("an event of %v reads as of %v", given, got)
	}
}

func testTimes(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	for _, at := range []time.Time{{}, time.Now().Add(time.Hour), {}, time.Unix(1, 0), {}} {
		e := text(runID, "a")
		e.Time = at
		mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{e, text(runID, "b")}})
	}
	all := readAll(t, s, agentID)
	for i := 1; i < len(all); i++ {
		if all[i].Time.Before(all[i-1].Time) {
			t.Errorf("event %d is of %v, before the one before it, %v", i+1, all[i].Time, all[i-1].Time)
		}
	}
}

func testMoved(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	for _, head := range []int64{1, 3, -1} {
		_, err := s.Append(t.Context(), store.Append{AgentID: agentID, IfHead: ptr(head), Events: []agent.Event{text(runID, "no")}})
		wantError(t, fmt.Sprintf("append at head %d of 2", head), err, store.ErrMoved)
	}
	mustAppend(t, s, store.Append{AgentID: agentID, IfHead: ptr(2), Events: []agent.Event{text(runID, "yes")}})
	if n := len(readAll(t, s, agentID)); n != 3 {
		t.Errorf("the journal has %d events; want 3", n)
	}
}

func testMakeOnce(t *testing.T, s Store) {
	agentID, _ := newAgent(t, s)
	_, err := s.Append(t.Context(), store.Append{AgentID: agentID, IfHead: ptr(0), Events: []agent.Event{{Body: &agent.Created{}}}})
	wantError(t, "making an agent again", err, store.ErrExists)
}

func testAppendToNothing(t *testing.T, s Store) {
	for _, head := range []*int64{nil, ptr(3)} {
		_, err := s.Append(t.Context(), store.Append{AgentID: agent.NewID(), IfHead: head, Events: []agent.Event{{Body: &agent.Archived{}}}})
		wantError(t, "append to no agent", err, store.ErrNotFound)
	}
	agentID, _ := newAgent(t, s)
	_, err := s.Append(t.Context(), store.Append{AgentID: agentID, Events: []agent.Event{text(agent.NewRunID(), "lost")}})
	wantError(t, "append to no run", err, store.ErrNotFound)
}

func testNothingOnError(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	before, err := s.Agent(t.Context(), agentID)
	if err != nil {
		t.Fatal(err)
	}
	for name, events := range map[string][]agent.Event{
		"RunTwice":     {text(runID, "a"), prompt(runID)},
		"RunOfNobody":  {text(runID, "a"), {Body: &agent.Archived{Archived: true}}, text(agent.NewRunID(), "b")},
		"AgentTwice":   {text(runID, "a"), {Body: &agent.Created{Name: "other"}}},
		"RunStartedIn": {{RunID: runID, Body: &agent.RunStarted{}}, text(agent.NewRunID(), "b")},
	} {
		if _, err := s.Append(t.Context(), store.Append{AgentID: agentID, Events: events}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	newID := agent.NewID()
	if _, err := s.Append(t.Context(), store.Append{AgentID: newID, IfHead: ptr(0), Events: []agent.Event{prompt(runID)}}); err == nil {
		t.Error("an agent was made without an event that says so")
	}
	if n := len(readAll(t, s, agentID)) + len(readAll(t, s, newID)); n != 2 {
		t.Errorf("the journals have %d events; want the 2 of before", n)
	}
	after, err := s.Agent(t.Context(), agentID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the agent has changed (-before +after):\n%s", diff)
	}
	written := mustAppend(t, s, store.Append{AgentID: agentID, IfHead: ptr(2), Events: []agent.Event{text(runID, "c")}})
	if written[0].Seq != 3 {
		t.Errorf("the next event is number %d; want 3", written[0].Seq)
	}
	if r, err := s.Run(t.Context(), agentID, runID); err != nil || r.Status != agent.Creating {
		t.Errorf("the run is %s, %v; want it CREATING still", r.Status, err)
	}
}

func testAppendNothing(t *testing.T, s Store) {
	agentID, _ := newAgent(t, s)
	if _, err := s.Append(t.Context(), store.Append{AgentID: agentID}); err == nil {
		t.Error("no error")
	}
}

func testAppendCancelled(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	why := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err := s.Append(ctx, store.Append{AgentID: agentID, Events: []agent.Event{text(runID, "no")}})
	wantError(t, "append", err, why)
	if n := len(readAll(t, s, agentID)); n != 2 {
		t.Errorf("the journal has %d events; want 2", n)
	}
}

func testReadNothing(t *testing.T, s Store) {
	agentID, _ := newAgent(t, s)
	for _, id := range []string{agent.NewID(), ""} {
		if events, err := s.Read(t.Context(), id, 0, 10); len(events) > 0 || err != nil {
			t.Errorf("Read of no agent = %v, %v", events, err)
		}
	}
	if events, err := s.Read(t.Context(), agentID, 2, 10); len(events) > 0 || err != nil {
		t.Errorf("Read after the last = %v, %v", events, err)
	}
}

func testReadLimit(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	for range 10 {
		mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{text(runID, "a")}})
	}
	events, err := s.Read(t.Context(), agentID, 4, 3)
	if err != nil {
		t.Fatal(err)
	}
	var seqs []int64
	for _, e := range events {
		seqs = append(seqs, e.Seq)
	}
	if diff := cmp.Diff([]int64{5, 6, 7}, seqs); diff != "" {
		t.Errorf("read other events (-want +got):\n%s", diff)
	}
}

func testOneAgent(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	const writers, each = 16, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				_, err := s.Append(t.Context(), store.Append{AgentID: agentID, Events: []agent.Event{
					text(runID, fmt.Sprint(w, i, "first")), text(runID, fmt.Sprint(w, i, "second")),
				}})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all := readAll(t, s, agentID)
	if len(all) != 2+writers*each*2 {
		t.Fatalf("the journal has %d events; want %d", len(all), 2+writers*each*2)
	}
	for i, e := range all {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
	}
	for i := 2; i < len(all); i += 2 {
		first, second := all[i].Body.(*agent.TextDelta).Text, all[i+1].Body.(*agent.TextDelta).Text
		if len(first) < 5 || first[:len(first)-len("first")] != second[:len(second)-len("second")] {
			t.Fatalf("another's event came between %q and its second, %q", first, second)
		}
	}
}

func testRace(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	const rounds, racers = 10, 8
	for head := int64(2); head < 2+rounds; head++ {
		results := make(chan error, racers)
		for range racers {
			go func() {
				_, err := s.Append(t.Context(), store.Append{AgentID: agentID, IfHead: ptr(head), Events: []agent.Event{text(runID, "mine")}})
				results <- err
			}()
		}
		won := 0
		for range racers {
			if err := <-results; err == nil {
				won++
			} else {
				wantError(t, "append of a loser", err, store.ErrMoved)
			}
		}
		if won != 1 {
			t.Fatalf("%d won; want 1", won)
		}
	}
}

func testHundred(t *testing.T, s Store) {
	const agents, each = 100, 10
	var wg sync.WaitGroup
	for range agents {
		wg.Go(func() {
			agentID, runID := agent.NewID(), agent.NewRunID()
			head := int64(0)
			events := []agent.Event{{Body: &agent.Created{Name: "one of many"}}, prompt(runID)}
			for range each {
				written, err := s.Append(t.Context(), store.Append{AgentID: agentID, IfHead: &head, Events: events})
				if err != nil {
					t.Error(err)
					return
				}
				head = written[len(written)-1].Seq
				events = []agent.Event{text(runID, "a")}
			}
			if n := len(readAll(t, s, agentID)); n != each+1 {
				t.Errorf("a journal has %d events; want %d", n, each+1)
			}
		})
	}
	wg.Wait()
	open, err := s.OpenRuns(t.Context())
	if err != nil || len(open) != agents {
		t.Errorf("OpenRuns = %d runs, %v; want %d", len(open), err, agents)
	}
}
