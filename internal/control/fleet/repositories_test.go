package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/gateway"
	"aloft/internal/control/loop/journal"
	"aloft/internal/fault"
)

// forge returns pull requests by their URLs.
type forge struct {
	found map[string]agent.PullRequest
	asked []string
}

func (f *forge) Found(_ context.Context, repoURL, prURL string) (agent.PullRequest, error) {
	f.asked = append(f.asked, prURL)
	p, ok := f.found[prURL]
	if !ok {
		return p, fault.NotFound("no %s", prURL)
	}
	p.RepoURL = repoURL
	return p, nil
}

// upstream is a git gateway to repositories that have only the branch main.
type upstream struct {
	Gateway
	asked []string
}

func (u *upstream) Check(_ context.Context, repoURL, ref string) (gateway.RefInfo, error) {
	u.asked = append(u.asked, repoURL+" "+ref)
	if ref != "" && ref != "main" {
		return gateway.RefInfo{}, fault.NotFound("no %s", ref).Named(gateway.CodeRefNotFound)
	}
	return gateway.RefInfo{DefaultBranch: "main", Commit: "c0ffee", Branch: "main", Branches: map[string]string{"main": "c0ffee"}}, nil
}

// If a repository lacks the team's base branch, the work starts at the default
// branch, and the journal says so once. If it lacks a ref that the request
// names, that is an error.
func TestBaseBranchMissing(t *testing.T) {
	const one, two = "https://git.test/o/one", "https://git.test/o/two"
	up := &upstream{}
	w := &Work{fleet: &Fleet{Config: Config{Gateway: up}}}
	begin := func(repos ...agent.Repo) (*agent.State, *[]agent.Body, journal.Record) {
		events := []agent.Body{&agent.Created{Branch: "aloft/x", Repos: repos}}
		state := fold(events...)
		return state, &events, func(_ context.Context, bodies ...agent.Body) error {
			events = append(events, bodies...)
			*state = *fold(events...)
			return nil
		}
	}
	state, events, record := begin(agent.Repo{URL: one, StartingRef: "main", TeamBase: true}, agent.Repo{URL: two, StartingRef: "develop", TeamBase: true})
	for range 2 { // the second time simulates a retry after a crash
		if _, err := w.branches(t.Context(), state, record); err != nil {
			t.Fatal(err)
		}
	}
	if got := state.Agent.Repos; got[0].StartingRef != "main" || got[1].StartingRef != "" || got[1].TeamBase {
		t.Errorf("the work starts at %+v", got)
	}
	if len(*events) != 3 {
		t.Fatalf("journaled: %+v", (*events)[1:])
	}
	if missing, ok := (*events)[1].(*agent.BaseMissing); !ok || *missing != (agent.BaseMissing{RepoURL: two, Branch: "develop"}) {
		t.Errorf("journaled first: %+v", (*events)[1])
	}
	if notice, ok := (*events)[2].(*agent.Notice); !ok || !strings.Contains(notice.Text, two+" has no branch develop") || !strings.Contains(notice.Text, "default branch, main") {
		t.Errorf("journaled second: %+v", (*events)[2])
	}
	state, _, record = begin(agent.Repo{URL: two, StartingRef: "develop"})
	if _, err := w.branches(t.Context(), state, record); fault.Of(err).Code != gateway.CodeRefNotFound {
		t.Errorf("with a ref of the request's own: %v", err)
	}
}

// An agent that is created for pull requests starts from their branches. The
// server requests each from the forge until it is journaled, and never again.
func TestFindPulls(t *testing.T) {
	const one, two, plain = "https://git.test/o/one", "https://git.test/o/two", "https://git.test/o/plain"
	f := &forge{found: map[string]agent.PullRequest{one + "/pulls/1": {Branch: "fix", Base: "main", URL: one + "/pulls/1", Number: 1, State: "open"}}}
	w := &Work{fleet: &Fleet{Config: Config{Pulls: f}}}
	events := []agent.Body{&agent.Created{Repos: []agent.Repo{{URL: one, PullRequest: one + "/pulls/1"}, {URL: plain, StartingRef: "v1"}, {URL: two, PullRequest: two + "/pulls/7"}}}}
	full := errors.New("the disk is full")
	record := func(err error) journal.Record {
		return func(_ context.Context, bodies ...agent.Body) error {
			if err == nil {
				events = append(events, bodies...)
			}
			return err
		}
	}
	find := func(err error) error { return w.findPulls(t.Context(), fold(events...), record(err)) }

	if err := find(full); !errors.Is(err, full) {
		t.Errorf("while nothing can be written: %v", err)
	}
	if err := find(nil); !fault.Is(err, fault.KindNotFound) {
		t.Errorf("while the second is not there: %v", err)
	}
	f.found[two+"/pulls/7"] = agent.PullRequest{Branch: "feature", URL: two + "/pulls/7", Number: 7, State: "open"}
	for range 2 { // the second time simulates a retry after a crash
		if err := find(nil); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{one + "/pulls/1", one + "/pulls/1", two + "/pulls/7", two + "/pulls/7"}; !slices.Equal(f.asked, want) {
		t.Errorf("asked for %v, want %v", f.asked, want)
	}
	var refs []string
	a := fold(events...).Agent
	for _, r := range a.Repos {
		refs = append(refs, r.StartingRef)
	}
	if !slices.Equal(refs, []string{"fix", "v1", "feature"}) || a.PullRequest(two, "feature") == nil {
		t.Errorf("it begins with %v, and has %+v", refs, a.PullRequests)
	}

	w.fleet.Pulls = nil
	if err := find(nil); err != nil {
		t.Errorf("what is known is asked for again: %v", err)
	}
	events = events[:1]
	if err := find(nil); fault.Of(err).Code != "integration_not_connected" || fault.Of(err).Advice == "" {
		t.Errorf("without a forge: %v", err)
	}
}
