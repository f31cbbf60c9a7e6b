package api

import (
	"strings"
	"testing"
	"time"

	"aloft/internal/control/layer"
	"aloft/internal/environment"
)

// snapshotOfAnn records a snapshot by Ann, and returns its id.
func (h *house) snapshotOfAnn() string { return h.snapshotOf(1, "git.example.com/o/r", time.Now()) }

func (h *house) snapshotOf(userID int64, repo string, at time.Time) string {
	h.t.Helper()
	n := environment.Snapshot{ID: layer.NewID(layer.Snapshot), UserID: userID, Repo: repo, AgentID: "bc-1", CreatedAt: at.UTC()}
	if err := h.store.AddSnapshot(h.t.Context(), n); err != nil {
		h.t.Fatal(err)
	}
	return n.ID
}

func TestSnapshots(t *testing.T) {
	h := newHouse(t)
	now := time.Now()
	older := h.snapshotOf(1, "git.example.com/o/r", now.Add(-time.Hour))
	newer := h.snapshotOf(1, "git.example.com/o/other", now)
	bens := h.snapshotOf(2, "git.example.com/o/r", now.Add(-time.Minute))
	ids := func(key, query string) (out []string) {
		t.Helper()
		for _, one := range h.want(h.callAs(key, "GET", "/v1/snapshots"+query, ""), 200).get(t, "items").([]any) {
			out = append(out, one.(map[string]any)["id"].(string))
		}
		return out
	}
	want := func(got []string, want ...string) {
		t.Helper()
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	want(ids(bensKey, ""), bens)
	want(ids(adminsKey, ""), newer, bens, older)
	want(ids(adminsKey, "?repo=https://git.example.com/o/r.git"), bens, older)
	h.saveEnvironment("env-1")
	want(ids(annsKey, "?environmentId=env-1"), bens, older) // Ann is an owner
	h.want(h.callAs(bensKey, "GET", "/v1/snapshots?environmentId=env-1", ""), 404)
	h.want(h.call("GET", "/v1/snapshots?repo=nonsense", ""), 400)

	first := h.want(h.call("GET", "/v1/snapshots?limit=2", ""), 200)
	want(ids(annsKey, "?limit=2&cursor="+first.text(t, "nextCursor")), older)

	h.want(h.callAs(bensKey, "PATCH", "/v1/snapshots/"+bens, `{"published":true}`), 403)
	h.want(h.callAs(adminsKey, "PATCH", "/v1/snapshots/snapshot-none", `{"published":true}`), 404)
	for _, published := range []string{"true", "false"} {
		got := h.want(h.callAs(adminsKey, "PATCH", "/v1/snapshots/"+bens, `{"published":`+published+`}`), 200)
		n, err := h.store.Snapshot(t.Context(), bens)
		if said := got.get(t, "published"); err != nil || n.For(1) != (published == "true") || said != n.For(1) {
			t.Errorf("published is to be %s: %+v, %v; the answer says %v", published, n, err, said)
		}
	}
	h.want(h.callAs(bensKey, "DELETE", "/v1/snapshots/"+older, ""), 404)
	h.want(h.callAs(bensKey, "DELETE", "/v1/snapshots/"+bens, ""), 200)
	h.want(h.callAs(adminsKey, "DELETE", "/v1/snapshots/"+older, ""), 200)
	want(ids(annsKey, ""), newer)
}
