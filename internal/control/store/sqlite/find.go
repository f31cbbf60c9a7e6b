package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"math"
	"slices"
	"strings"

	sqlite "modernc.org/sqlite"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite/query"
)

func init() {
	// SQLite's own lower and LIKE know the case of ASCII letters only.
	for name, has := range map[string]func(text, wanted string) bool{"has_words": hasWords, "has_repository": hasRepository, "has_pull_request": hasPullRequest} {
		sqlite.MustRegisterDeterministicScalarFunction(name, 2, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			text, _ := args[0].(string)
			wanted, _ := args[1].(string)
			return has(text, wanted), nil
		})
	}
}

// hasWords reports whether every word of wanted is somewhere in the text, in
// whatever case.
func hasWords(text, wanted string) bool {
	text = strings.ToLower(text)
	for word := range strings.FieldsSeq(strings.ToLower(wanted)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// hasRepository reports whether one of the repositories, in JSON, is at the
// address wanted, or at one that ends so.
func hasRepository(repos, wanted string) bool {
	var all []agent.Repo
	if json.Unmarshal([]byte(repos), &all) != nil {
		return false
	}
	plain := func(url string) string {
		return strings.TrimSuffix(strings.TrimRight(strings.ToLower(url), "/"), ".git")
	}
	wanted = plain(wanted)
	return slices.ContainsFunc(all, func(r agent.Repo) bool {
		rest, ok := strings.CutSuffix(plain(r.URL), wanted)
		return ok && (rest == "" || strings.HasSuffix(rest, "/") || strings.HasSuffix(rest, ":"))
	})
}

// hasPullRequest reports whether the agent was started on the pull request at the
// address wanted, or has opened it. The text is the agent's repositories, and
// after them its pull requests, in JSON.
func hasPullRequest(text, wanted string) bool {
	plain := func(url string) string { return strings.TrimRight(strings.ToLower(url), "/") }
	wanted = plain(wanted)
	var repos []agent.Repo
	var pulls []agent.PullRequest
	d := json.NewDecoder(strings.NewReader(text))
	if d.Decode(&repos) != nil {
		return false
	}
	_ = d.Decode(&pulls) // there may be none
	return slices.ContainsFunc(repos, func(r agent.Repo) bool { return plain(r.PullRequest) == wanted }) ||
		slices.ContainsFunc(pulls, func(p agent.PullRequest) bool { return plain(p.URL) == wanted })
}

var statuses = map[store.Standing]string{
	store.Working:  string(agent.Creating) + "," + string(agent.Running),
	store.Finished: string(agent.Finished),
	store.Failed:   string(agent.Failed) + "," + string(agent.Expired),
	store.Stopped:  string(agent.Cancelled),
}

// find lists the agents that a filter leaves.
func (s *Store) find(ctx context.Context, q store.AgentQuery) ([]query.Agent, error) {
	in := query.FindAgentsParams{
		UserID: q.UserID, Archived: number(q.IncludeArchived || slices.Contains(q.Standings, store.Archived)), Since: math.MinInt64, Until: math.MaxInt64, AnyStanding: number(len(q.Standings) == 0),
		FiledAway: number(slices.Contains(q.Standings, store.Archived)), NeedsYou: number(slices.Contains(q.Standings, store.NeedsYou)), NewsSince: nanos(q.NewsSince),
		Words: strings.Join(strings.Fields(q.Search), " "), Repository: strings.TrimSpace(q.Repository), PullRequest: strings.TrimSpace(q.PullRequest),
	}
	in.BeforeTime, in.BeforeID, in.Most = bounds(q.Page)
	if !q.From.IsZero() {
		in.Since = nanos(q.From)
	}
	if !q.To.IsZero() {
		in.Until = nanos(q.To)
	}
	for _, standing := range q.Standings {
		if of := statuses[standing]; of != "" {
			in.Statuses += "," + of + ","
		}
	}
	return s.read.FindAgents(ctx, in)
}
