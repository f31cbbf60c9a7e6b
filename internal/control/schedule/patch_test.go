package schedule

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/control/fleet"
	"aloft/internal/control/gateway"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/tool"
)

// archive stores agents with their journals in memory.
type archive struct {
	store.Agents
	store.Journal
	owners map[string]int64
	events map[string][]agent.Event
}

func (a *archive) Agent(_ context.Context, id string) (agent.Agent, error) {
	owner, ok := a.owners[id]
	if !ok {
		return agent.Agent{}, store.ErrNotFound
	}
	return agent.Agent{ID: id, UserID: owner}, nil
}

func (a *archive) Read(_ context.Context, id string, after int64, _ int) ([]agent.Event, error) {
	return a.events[id][after:], nil
}

// add adds an agent that works on repositories and has pushed to the given ones.
func (a *archive) add(id string, owner int64, pushed map[string]bool, repos ...string) {
	created := &agent.Created{UserID: owner, Branch: "aloft/" + id}
	ready := &agent.MachineReady{BaseCommit: "base-" + id, Branch: "aloft/" + id}
	for i, url := range repos {
		created.Repos = append(created.Repos, agent.Repo{URL: url})
		if i > 0 {
			ready.Others = append(ready.Others, agent.Checkout{BaseCommit: "base-" + id, Branch: "aloft/" + id})
		}
	}
	bodies := []agent.Body{created, ready}
	for _, url := range repos {
		if pushed[url] {
			bodies = append(bodies, &agent.Pushed{RepoURL: url, Branch: "aloft/" + id})
		}
	}
	a.owners[id] = owner
	for i, b := range bodies {
		a.events[id] = append(a.events[id], agent.Event{Seq: int64(i + 1), Body: b})
	}
}

// patched is a gateway that returns the arguments of Patch as the patch.
type patched struct{ Gateway }

func (patched) Patch(_ context.Context, repoURL, base, branch string, limit int) (gateway.Patch, error) {
	if strings.HasSuffix(repoURL, "/same") {
		return gateway.Patch{}, nil
	}
	return gateway.Patch{Text: fmt.Appendf(nil, "%s %s...%s %v", repoURL, base, branch, limit > 0), Files: []string{"a"}}, nil
}

// TestPatches checks that an agent can read the changes only of agents that it
// may see.
func TestPatches(t *testing.T) {
	id := func(n int) string { return fmt.Sprintf("bc-00000000-0000-4000-8000-%012d", n) }
	const one, two, three, same = "https://git.test/o/one", "https://git.test/o/two", "https://git.test/o/three", "https://git.test/o/same"
	everywhere := map[string]bool{one: true, one + ".git": true, two: true, three: true, same: true}
	a := &archive{owners: map[string]int64{}, events: map[string][]agent.Event{}}
	a.add(id(1), 7, nil, one, two, same)
	a.add(id(2), 7, everywhere, two, three)
	a.add(id(3), 8, everywhere, one) // belongs to another owner
	a.add(id(4), 7, nil, one)        // has pushed to no repository
	a.add(id(5), 7, everywhere, three)
	a.add(id(6), 7, everywhere, same)
	a.add(id(7), 7, everywhere, one) // has pushed, so its own branch is the base
	a.add(id(8), 7, everywhere, one+".git", two)
	all := fleet.New(fleet.Config{Journal: a, Secrets: func(string) map[string]string { return map[string]string{"T": "s3cr3t-value"} }})
	s := New(Config{Agents: a, Fleet: all, Gateway: patched{}})
	state, err := s.Fleet.State(t.Context(), id(1))
	if err != nil {
		t.Fatal(err)
	}
	text := func(repo, base, branch string) []byte {
		return fmt.Appendf(nil, "%s %s...%s true", repo, base, branch)
	}
	got, err := s.patches(t.Context(), state, id(2))
	if diff := cmp.Diff([]tool.Patch{{Folder: "two", Text: text(two, "base-"+id(2), "aloft/"+id(2)), Files: []string{"a"}}}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if got, err = s.patches(t.Context(), state, id(8)); len(got) != 2 || got[0].Folder != "one" || got[1].Folder != "two" || err != nil {
		t.Errorf("%v %v", got, err)
	}
	if got, err = s.patches(t.Context(), state, id(6)); len(got) != 0 || err != nil {
		t.Errorf("%v %v", got, err)
	}
	for other, want := range map[string]string{
		id(3): "you have no other agent", id(9): "you have no other agent", id(1): "you have no other agent", "../x": "you have no other agent",
		id(4): "has pushed nothing yet", id(5): "works on none of your repositories",
	} {
		if got, err := s.patches(t.Context(), state, other); err == nil || !strings.Contains(fault.Of(err).Message, want) || got != nil {
			t.Errorf("%s: %v, %v, want %q", other, got, err, want)
		}
	}
	if state, err = s.Fleet.State(t.Context(), id(7)); err != nil {
		t.Fatal(err)
	}
	got, err = s.patches(t.Context(), state, id(8))
	if diff := cmp.Diff([]tool.Patch{{Text: text(one, "refs/heads/aloft/"+id(7), "aloft/"+id(8)), Files: []string{"a"}}}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	s.Fleet.Secrets = func(string) map[string]string { return map[string]string{"T": "git.test/o/one"} }
	if _, err = s.patches(t.Context(), state, id(8)); err == nil || !strings.Contains(err.Error(), "contain a secret") {
		t.Errorf("a secret: %v", err)
	}
}
