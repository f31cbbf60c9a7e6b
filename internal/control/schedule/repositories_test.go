package schedule

import (
	"context"
	"errors"
	"slices"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/fault"
)

// forge finds pull requests by their addresses.
type forge struct {
	loop.Pulls
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

// An agent that is started on pull requests begins with their branches. Each is
// asked for until it is in the journal, and then no more.
func TestFindPulls(t *testing.T) {
	const one, two, plain = "https://git.test/o/one", "https://git.test/o/two", "https://git.test/o/plain"
	f := &forge{found: map[string]agent.PullRequest{one + "/pulls/1": {Branch: "fix", Base: "main", URL: one + "/pulls/1", Number: 1, State: "open"}}}
	w := &worker{s: &Scheduler{Config: Config{Pulls: f}}}
	events := []agent.Body{&agent.Created{Repos: []agent.Repo{{URL: one, PullRequest: one + "/pulls/1"}, {URL: plain, StartingRef: "v1"}, {URL: two, PullRequest: two + "/pulls/7"}}}}
	full := errors.New("the disk is full")
	record := func(err error) loop.Record {
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
	for range 2 { // as after a crash
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

	w.s.Pulls = nil
	if err := find(nil); err != nil {
		t.Errorf("what is known is asked for again: %v", err)
	}
	events = events[:1]
	if err := find(nil); fault.Of(err).Code != "forge_not_configured" || fault.Of(err).Advice == "" {
		t.Errorf("without a forge: %v", err)
	}
}
