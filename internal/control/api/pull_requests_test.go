package api

import (
	"context"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/pull"
)

// forgeNotes is a forge at which what was opened is counted.
type forgeNotes struct {
	Pulls
	opened int
}

func (f *forgeNotes) ByHand(_ context.Context, _ int64, agentID, _ string, w pull.Wish) (agent.PullRequest, error) {
	f.opened++
	return agent.PullRequest{RepoURL: "https://git.example.com/o/r", Branch: "b", URL: "https://git.example.com/o/r/pull/1", Title: w.Title, Number: int64(f.opened)}, nil
}

// A request for a pull request that is repeated with its key asks the forge once.
func TestRepeatedPullRequest(t *testing.T) {
	h, forge := newHouse(t), &forgeNotes{}
	h.api.Pulls = forge
	id, _ := h.begin()
	path := "/v1/agents/" + id + "/pull-requests"
	first := h.want(h.call("POST", path, `{"title":"Mend it"}`, "Idempotency-Key", "k"), 201)
	if again := h.want(h.call("POST", path, `{"title":"Mend it"}`, "Idempotency-Key", "k"), 201); string(again.body) != string(first.body) || forge.opened != 1 {
		t.Errorf("%d were asked for: %s, then %s", forge.opened, first.body, again.body)
	}
	h.want(h.call("POST", path, `{"title":"Another"}`, "Idempotency-Key", "k"), 409)
	if h.want(h.call("POST", path, `{"title":"Another"}`), 201); forge.opened != 2 {
		t.Error("without a key it is asked for as often as it is wished")
	}
}
