package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/control/store"
)

var agentTests = []test{
	{"WhatIsNotThereIsErrNotFound", testNotThere},
	{"ListIsNewestFirst", testListOrder},
	{"ListIsOfOneUser", testListUser},
	{"ListLeavesOutWhatIsArchived", testListArchived},
	{"ListIsNarrowed", testFind},
	{"PagesAreStableWhileAgentsAreAdded", testPages},
	{"ThoseThatAskComeFirst", testAsksFirst},
	{"PagesPartAgentsOfTheSameMoment", testSameMoment},
	{"RunsAreNewestFirst", testRunOrder},
	{"OpenRunsAreOldestFirst", testOpenRuns},
	{"DeleteRemovesEverything", testDelete},
	{"ADiskIsAwaitedUntilAMachineBeganWithIt", testAwaitLayer},
	{"WhatAUserHasIsCounted", testHeld},
}

func testNotThere(t *testing.T, s Store) {
	ctx := t.Context()
	agentID, runID := newAgent(t, s)
	other, _ := newAgent(t, s)
	_, err := s.Agent(ctx, agent.NewID())
	wantError(t, "Agent", err, store.ErrNotFound)
	_, err = s.Run(ctx, agentID, agent.NewRunID())
	wantError(t, "Run", err, store.ErrNotFound)
	_, err = s.Run(ctx, other, runID)
	wantError(t, "Run of another agent", err, store.ErrNotFound)
	_, err = s.ListRuns(ctx, agent.NewID(), store.Page{Limit: 1})
	wantError(t, "ListRuns", err, store.ErrNotFound)
	wantError(t, "DeleteAgent", s.DeleteAgent(ctx, agent.NewID()), store.ErrNotFound)
}

// add creates an agent with the given user and creation time.
func add(t *testing.T, s Store, user int64, at time.Time) string {
	t.Helper()
	id := agent.NewID()
	mustAppend(t, s, store.Append{AgentID: id, IfHead: ptr(0), Events: []agent.Event{
		{Time: at, Body: &agent.Created{Name: "one", UserID: user}},
	}})
	return id
}

func ids(t *testing.T, s Store, q store.AgentQuery) []string {
	t.Helper()
	agents, err := s.ListAgents(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range agents {
		got = append(got, a.ID)
	}
	return got
}

var someDay = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func testListOrder(t *testing.T, s Store) {
	want := make([]string, 5)
	for _, i := range []int{3, 0, 4, 1, 2} {
		want[i] = add(t, s, 1, someDay.Add(-time.Duration(i)*time.Hour))
	}
	if diff := cmp.Diff(want, ids(t, s, store.AgentQuery{Page: store.Page{Limit: 10}})); diff != "" {
		t.Errorf("list differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:2], ids(t, s, store.AgentQuery{Page: store.Page{Limit: 2}})); diff != "" {
		t.Errorf("list of two differs (-want +got):\n%s", diff)
	}
}

func testListUser(t *testing.T, s Store) {
	mine := add(t, s, 7, someDay)
	add(t, s, 8, someDay)
	if diff := cmp.Diff([]string{mine}, ids(t, s, store.AgentQuery{UserID: 7, Page: store.Page{Limit: 10}})); diff != "" {
		t.Errorf("list differs (-want +got):\n%s", diff)
	}
	if n := len(ids(t, s, store.AgentQuery{Page: store.Page{Limit: 10}})); n != 2 {
		t.Errorf("the list of everybody's has %d; want 2", n)
	}
}

func testListArchived(t *testing.T, s Store) {
	filed := add(t, s, 1, someDay)
	kept := add(t, s, 1, someDay.Add(-time.Hour))
	file := func(archived bool) {
		mustAppend(t, s, store.Append{AgentID: filed, Events: []agent.Event{{Body: &agent.Archived{Archived: archived}}}})
	}
	for _, user := range []int64{0, 1} {
		q := store.AgentQuery{UserID: user, Page: store.Page{Limit: 10}}
		all := q
		all.IncludeArchived = true
		file(true)
		if diff := cmp.Diff([]string{kept}, ids(t, s, q)); diff != "" {
			t.Errorf("list differs (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{filed, kept}, ids(t, s, all)); diff != "" {
			t.Errorf("list with archived differs (-want +got):\n%s", diff)
		}
		file(false)
		if diff := cmp.Diff([]string{filed, kept}, ids(t, s, q)); diff != "" {
			t.Errorf("list after bringing back differs (-want +got):\n%s", diff)
		}
	}
}

// testFind lists agents with each field of a filter, in one page and in pages
// of two.
func testFind(t *testing.T, s Store) {
	news := someDay.AddDate(0, 0, -10)
	byName := map[string]string{}
	made := func(name, repo string, age int, user int64, bodies ...agent.Body) {
		id, run := agent.NewID(), agent.NewRunID()
		byName[id] = name
		events := []agent.Event{
			{Time: someDay.AddDate(0, 0, -age), Body: &agent.Created{Name: name, UserID: user, Repos: []agent.Repo{{URL: repo}}}},
			{Time: someDay.AddDate(0, 0, -age), RunID: run, Body: &agent.RunCreated{}},
		}
		for _, b := range bodies {
			events = append(events, agent.Event{RunID: run, Body: b})
		}
		mustAppend(t, s, store.Append{AgentID: id, IfHead: ptr(0), Events: events})
	}
	ended := func(status agent.Status) agent.Body { return &agent.RunEnded{Status: status} }
	made("Working on Ümlauts", "https://git.test/acme/shop.git", 0, 1, &agent.RunStarted{})
	made("asks", "git@git.test:acme/shop", 1, 1, &agent.RunStarted{}, &agent.ApprovalAsked{Approval: agent.Approval{ID: "q1"}})
	made("done", "https://git.test/acme/workshop", 2, 1, &agent.RunStarted{}, ended(agent.Finished))
	made("failed", "https://git.test/acme/shop", 3, 2, &agent.RunStarted{}, ended(agent.Failed))
	made("stopped", "https://git.test/acme/web", 4, 1, ended(agent.Cancelled))
	made("filed", "https://git.test/acme/shop", 5, 1, ended(agent.Failed), &agent.Archived{Archived: true})
	made("on a pull request", "https://git.test/acme/other", 6, 1, &agent.PullRequestFound{PullRequest: agent.PullRequest{RepoURL: "https://git.test/acme/other", Branch: "b", URL: "https://git.test/acme/other/pulls/7"}})
	made("opens one", "https://git.test/acme/another", 7, 1, &agent.PullRequestOpened{PullRequest: agent.PullRequest{RepoURL: "https://git.test/acme/another", Branch: "b", URL: "https://git.test/acme/another/pulls/71"}})
	for name, tt := range map[string]struct {
		filter store.AgentFilter
		user   int64
		want   []string
	}{
		"words, in whatever case": {store.AgentFilter{Search: "ÜMLAUTS working"}, 0, []string{"Working on Ümlauts"}},
		"words of a repository":   {store.AgentFilter{Search: "SHOP done"}, 0, []string{"done"}},
		"words that none has":     {store.AgentFilter{Search: "shop nothing"}, 0, nil},
		"no pattern":              {store.AgentFilter{Search: "%"}, 0, nil},
		"the end of an address":   {store.AgentFilter{Repository: "Acme/Shop"}, 0, []string{"Working on Ümlauts", "asks", "failed"}},
		"a whole address":         {store.AgentFilter{Repository: "https://git.test/acme/shop/"}, 0, []string{"Working on Ümlauts", "failed"}},
		"from":                    {store.AgentFilter{From: someDay.AddDate(0, 0, -1)}, 0, []string{"Working on Ümlauts", "asks"}},
		"to":                      {store.AgentFilter{To: someDay.AddDate(0, 0, -3)}, 0, []string{"stopped", "on a pull request", "opens one"}},
		"asks":                    {store.AgentFilter{Statuses: []store.ListStatus{store.Asks}, NewsSince: news}, 0, []string{"asks"}},
		"asks, of a user":         {store.AgentFilter{Statuses: []store.ListStatus{store.Asks}}, 2, nil},
		"words of a pull request": {store.AgentFilter{Search: "another/pulls/71"}, 0, []string{"opens one"}},
		"no words of JSON":        {store.AgentFilter{Search: "startingRef"}, 0, nil},
		"needs you":               {store.AgentFilter{Statuses: []store.ListStatus{store.NeedsYou}, NewsSince: news}, 0, []string{"asks", "failed"}},
		"needs you, old news":     {store.AgentFilter{Statuses: []store.ListStatus{store.NeedsYou}, NewsSince: someDay.Add(time.Hour)}, 0, []string{"asks"}},
		"working":                 {store.AgentFilter{Statuses: []store.ListStatus{store.Working}}, 0, []string{"Working on Ümlauts", "asks", "on a pull request", "opens one"}},
		"ended":                   {store.AgentFilter{Statuses: []store.ListStatus{store.Finished, store.Failed, store.Stopped}}, 0, []string{"done", "failed", "stopped"}},
		"ended, of a user":        {store.AgentFilter{Statuses: []store.ListStatus{store.Finished, store.Failed, store.Stopped}}, 1, []string{"done", "stopped"}},
		"archived":                {store.AgentFilter{Statuses: []store.ListStatus{store.Archived}}, 0, []string{"filed"}},
		"archived or stopped":     {store.AgentFilter{Statuses: []store.ListStatus{store.Archived, store.Stopped}}, 0, []string{"stopped", "filed"}},
		"on a pull request":       {store.AgentFilter{PullRequest: "https://git.test/Acme/other/pulls/7/"}, 0, []string{"on a pull request"}},
		"a pull request opened":   {store.AgentFilter{PullRequest: "https://git.test/acme/another/pulls/71"}, 0, []string{"opens one"}},
		"no such pull request":    {store.AgentFilter{PullRequest: "https://git.test/acme/another/pulls/7"}, 0, nil},
		"all at once":             {store.AgentFilter{Search: "q", Repository: "acme/shop", Statuses: []store.ListStatus{store.Working}, From: someDay}, 1, nil},
	} {
		for _, limit := range []int{100, 2} {
			var got []string
			q := store.AgentQuery{UserID: tt.user, AgentFilter: tt.filter, Page: store.Page{Limit: limit}}
			for more := true; more; {
				page, err := s.ListAgents(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range page {
					got = append(got, byName[a.ID])
					q.BeforeTime, q.BeforeID = a.CreatedAt, a.ID
				}
				more = len(page) == limit
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s, pages of %d (-want +got):\n%s", name, limit, diff)
			}
		}
	}
}

// testAsksFirst lists agents in pages of several sizes. Between two pages, one
// agent makes a request, and the request of another agent is answered. No agent
// may be missing, and only the agent with the answered request may appear
// twice.
func testAsksFirst(t *testing.T, s Store) {
	at := someDay.Add(time.Hour)
	byName := map[string]string{}
	ask := func(id, run, question string, when time.Time) {
		mustAppend(t, s, store.Append{AgentID: id, Events: []agent.Event{{RunID: run, Body: &agent.ApprovalAsked{Approval: agent.Approval{ID: question, AskedAt: when}}}}})
	}
	made := map[string][2]string{}
	for i, name := range strings.Fields("new1 asks1 new2 filed asks2 old1 asks3 old2 others") {
		id, run := agent.NewID(), agent.NewRunID()
		made[name], byName[id] = [2]string{id, run}, name
		user := int64(1)
		if name == "others" {
			user = 2
		}
		when := someDay.Add(-time.Duration(i) * time.Minute)
		mustAppend(t, s, store.Append{AgentID: id, IfHead: ptr(0), Events: []agent.Event{
			{Time: when, Body: &agent.Created{Name: name, UserID: user, Repos: []agent.Repo{{URL: "https://git.test/a/b"}}}},
			{Time: when, RunID: run, Body: &agent.RunCreated{}},
			{Time: when, RunID: run, Body: &agent.RunStarted{}},
		}})
		if strings.HasPrefix(name, "asks") || name == "filed" || name == "others" {
			ask(id, run, "q"+name, someDay)
		}
	}
	mustAppend(t, s, store.Append{AgentID: made["filed"][0], Events: []agent.Event{{Body: &agent.Archived{Archived: true}}}})
	walk := func(q store.AgentQuery, limit int, between func(page int)) (got []string) {
		q.AsksFirst, q.Limit = &store.AsksFirst{At: at}, limit
		for n := 1; ; n++ {
			page, err := s.ListAgents(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range page {
				got = append(got, byName[a.ID])
				q.BeforeTime, q.BeforeID, q.AsksFirst.Past = a.CreatedAt, a.ID, !a.AskedBy(at)
			}
			if len(page) < limit {
				return got
			}
			between(n)
		}
	}
	for _, tt := range []struct {
		query store.AgentQuery
		want  string
	}{
		{store.AgentQuery{UserID: 1}, "asks1 asks2 asks3 new1 new2 old1 old2"},
		{store.AgentQuery{UserID: 1, IncludeArchived: true}, "asks1 asks2 asks3 new1 new2 filed old1 old2"},
		{store.AgentQuery{}, "asks1 asks2 asks3 others new1 new2 old1 old2"},
		{store.AgentQuery{UserID: 2}, "others"},
		{store.AgentQuery{UserID: 1, AgentFilter: store.AgentFilter{Search: "SK"}}, "asks1 asks2 asks3"},
		{store.AgentQuery{UserID: 1, AgentFilter: store.AgentFilter{Search: "old"}}, "old1 old2"},
		{store.AgentQuery{UserID: 1, AgentFilter: store.AgentFilter{Statuses: []store.ListStatus{store.Asks}}}, "asks1 asks2 asks3"},
		{store.AgentQuery{UserID: 1, AgentFilter: store.AgentFilter{Statuses: []store.ListStatus{store.Failed}}}, ""},
	} {
		for _, limit := range []int{1, 2, 3, 4, 100} {
			if got := strings.Join(walk(tt.query, limit, func(int) {}), " "); got != tt.want {
				t.Errorf("%+v in pages of %d: %s, want %s", tt.query, limit, got, tt.want)
			}
		}
	}
	got := walk(store.AgentQuery{UserID: 1}, 2, func(page int) {
		if page == 1 {
			ask(made["old1"][0], made["old1"][1], "late", at.Add(time.Second))
			mustAppend(t, s, store.Append{AgentID: made["asks3"][0], Events: []agent.Event{{RunID: made["asks3"][1], Body: &agent.ApprovalAnswered{ApprovalID: "qasks3", Decision: agent.Deny}}}})
			mustAppend(t, s, store.Append{AgentID: made["asks1"][0], Events: []agent.Event{{RunID: made["asks1"][1], Body: &agent.ApprovalAnswered{ApprovalID: "qasks1", Decision: agent.Deny}}}})
		}
	})
	if got, want := strings.Join(got, " "), "asks1 asks2 new1 asks1 new2 old1 asks3 old2"; got != want {
		t.Errorf("while some ask and some are answered: %s, want %s", got, want)
	}
}

func testPages(t *testing.T, s Store) {
	var want []string
	for i := range 25 {
		want = append(want, add(t, s, 1, someDay.Add(-time.Duration(i)*time.Minute)))
	}
	var got []string
	q := store.AgentQuery{Page: store.Page{Limit: 4}}
	for i := range 20 {
		page, err := s.ListAgents(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page {
			got = append(got, a.ID)
			q.BeforeTime, q.BeforeID = a.CreatedAt, a.ID
		}
		if len(page) < q.Limit {
			break
		}
		add(t, s, 1, someDay.Add(time.Duration(i+1)*time.Minute))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages differ (-want +got):\n%s", diff)
	}
}

func testSameMoment(t *testing.T, s Store) {
	var want []string
	for range 10 {
		want = append(want, add(t, s, 1, someDay))
	}
	slices.Sort(want)
	slices.Reverse(want)
	var got []string
	q := store.AgentQuery{Page: store.Page{Limit: 3}}
	for range want {
		page, err := s.ListAgents(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page {
			got = append(got, a.ID)
			q.BeforeTime, q.BeforeID = a.CreatedAt, a.ID
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages differ (-want +got):\n%s", diff)
	}
}

func testRunOrder(t *testing.T, s Store) {
	agentID := add(t, s, 1, someDay)
	var want []string
	for i := range 5 {
		e := prompt(agent.NewRunID())
		e.Time = someDay.Add(time.Duration(i) * time.Minute)
		mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{e}})
		want = append(want, e.RunID)
	}
	slices.Reverse(want)
	var got []string
	page := store.Page{Limit: 2}
	for range want {
		runs, err := s.ListRuns(t.Context(), agentID, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			got = append(got, r.ID)
			page.BeforeTime, page.BeforeID = r.CreatedAt, r.ID
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs differ (-want +got):\n%s", diff)
	}
}

func testOpenRuns(t *testing.T, s Store) {
	var want []string
	for i := range 6 {
		agentID := add(t, s, 1, someDay)
		e := prompt(agent.NewRunID())
		e.Time = someDay.Add(time.Duration(i+1) * time.Minute)
		mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{e}})
		if i%2 == 0 {
			mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{{RunID: e.RunID, Body: &agent.RunStarted{}}}})
		}
		if i == 3 {
			mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{{RunID: e.RunID, Body: &agent.RunEnded{Status: agent.Cancelled}}}})
			continue
		}
		want = append(want, fmt.Sprint(agentID, e.RunID))
	}
	open, err := s.OpenRuns(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range open {
		got = append(got, fmt.Sprint(r.AgentID, r.ID))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("open runs differ (-want +got):\n%s", diff)
	}
}

func testDelete(t *testing.T, s Store) {
	ctx := t.Context()
	agentID, runID := newAgent(t, s)
	kept, keptRun := newAgent(t, s)
	if err := s.DeleteAgent(ctx, agentID); err != nil {
		t.Fatal(err)
	}
	_, err := s.Agent(ctx, agentID)
	wantError(t, "Agent", err, store.ErrNotFound)
	_, err = s.Run(ctx, agentID, runID)
	wantError(t, "Run", err, store.ErrNotFound)
	if all := readAll(t, s, agentID); len(all) > 0 {
		t.Errorf("the journal has %d events still", len(all))
	}
	_, err = s.Append(ctx, store.Append{AgentID: agentID, Events: []agent.Event{text(runID, "late")}})
	wantError(t, "Append", err, store.ErrNotFound)
	wantError(t, "DeleteAgent", s.DeleteAgent(ctx, agentID), store.ErrNotFound)
	open, err := s.OpenRuns(ctx)
	if err != nil || len(open) != 1 || open[0].ID != keptRun {
		t.Errorf("open runs are %v, %v; want that of %s", open, err, kept)
	}
	// The id can be used again, and the old content does not reappear.
	mustAppend(t, s, store.Append{AgentID: agentID, IfHead: ptr(0), Events: []agent.Event{{Body: &agent.Created{Name: "again"}}, prompt(runID)}})
	if all := readAll(t, s, agentID); len(all) != 2 {
		t.Errorf("the new journal has %d events; want 2", len(all))
	}
}

func testAwaitLayer(t *testing.T, s Store) {
	const layer = "fork-20260102-00000000-0000-4000-8000-000000000001"
	awaited := func(layer string, want bool) {
		t.Helper()
		if got, err := s.AwaitLayer(t.Context(), layer); err != nil || got != want {
			t.Errorf("%q is awaited: %v, %v; want %v", layer, got, err, want)
		}
	}
	newAgent(t, s) // this agent does not start from the layer
	awaited("", false)
	awaited(layer, false)
	var ids []string
	for range 2 {
		id := agent.NewID()
		mustAppend(t, s, store.Append{AgentID: id, IfHead: ptr(0), Events: []agent.Event{
			{Body: &agent.Created{Name: "one"}}, {Body: &agent.Forked{ForkPosition: agent.ForkPosition{AgentID: agent.NewID()}, Layer: layer}},
		}})
		ids = append(ids, id)
	}
	awaited(layer, true)
	mustAppend(t, s, store.Append{AgentID: ids[0], Events: []agent.Event{{Body: &agent.MachineMade{MachineID: "m"}}}})
	if err := s.DeleteAgent(t.Context(), ids[1]); err != nil {
		t.Fatal(err)
	}
	awaited(layer, true) // the machine may not have been created
	mustAppend(t, s, store.Append{AgentID: ids[0], Events: []agent.Event{{Body: &agent.MachineReady{MachineID: "m", BootID: "b"}}}})
	awaited(layer, false)
}

func testHeld(t *testing.T, s Store) {
	held := func(user int64, want store.Held) {
		t.Helper()
		if got, err := s.Held(t.Context(), user); err != nil || got != want {
			t.Errorf("user %d has %+v, %v; want %+v", user, got, err, want)
		}
	}
	held(7, store.Held{})
	id, run := add(t, s, 7, someDay), agent.NewRunID()
	add(t, s, 7, someDay)
	add(t, s, 8, someDay)
	mustAppend(t, s, store.Append{AgentID: id, Events: []agent.Event{{RunID: run, Body: &agent.RunCreated{}}}})
	held(7, store.Held{Agents: 2, Running: 1})
	held(8, store.Held{Agents: 1})
	mustAppend(t, s, store.Append{AgentID: id, Events: []agent.Event{{RunID: run, Body: &agent.RunEnded{Status: agent.Finished}}}})
	held(7, store.Held{Agents: 2})
	if err := s.DeleteAgent(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	held(7, store.Held{Agents: 1})
}
