package table

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

// hasWords reports whether the text contains every word of wanted, ignoring
// case.
func hasWords(text, wanted string) bool {
	text = strings.ToLower(text)
	for word := range strings.FieldsSeq(strings.ToLower(wanted)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// searched returns the text of an agent's row that a search covers.
func searched(row query.Agent) string {
	text := []string{row.ID, row.Name, row.Model}
	var repos []agent.Repo
	var pulls []agent.PullRequest
	_ = json.Unmarshal([]byte(row.Repos), &repos)
	_ = json.Unmarshal([]byte(row.PullRequests), &pulls) // the column may be empty
	for _, r := range repos {
		text = append(text, r.URL, r.StartingRef, r.PullRequest)
	}
	for _, p := range pulls {
		text = append(text, p.Branch, p.URL)
	}
	return strings.Join(text, " ")
}

// hasRepository reports whether one of the URLs in repos, a JSON list of
// repositories, is equal to wanted or ends with it.
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

// hasPullRequest reports whether the agent was started on the pull request with
// the URL wanted, or has opened it.
func hasPullRequest(row query.Agent, wanted string) bool {
	plain := func(url string) string { return strings.TrimRight(strings.ToLower(url), "/") }
	wanted = plain(wanted)
	var repos []agent.Repo
	var pulls []agent.PullRequest
	if json.Unmarshal([]byte(row.Repos), &repos) != nil {
		return false
	}
	_ = json.Unmarshal([]byte(row.PullRequests), &pulls) // the column may be empty
	return slices.ContainsFunc(repos, func(r agent.Repo) bool { return plain(r.PullRequest) == wanted }) ||
		slices.ContainsFunc(pulls, func(p agent.PullRequest) bool { return plain(p.URL) == wanted })
}

var statuses = map[store.ListStatus]string{
	store.Working:  string(agent.Creating) + "," + string(agent.Running),
	store.Finished: string(agent.Finished),
	store.Failed:   string(agent.Failed) + "," + string(agent.Expired),
	store.Stopped:  string(agent.Cancelled),
}

// findAmong is how many rows are read at once when filtering agents.
const findAmong = 500

// asking is like FindAgents, but only for the agents with pending requests. It
// uses an index of them.
func (s *Store) asking(ctx context.Context, in query.FindAgentsParams) ([]query.Agent, error) {
	return s.read.FindAskingAgents(ctx, query.FindAskingAgentsParams(in))
}

// listAsksFirst lists the agents with pending requests, then the others.
func (s *Store) listAsksFirst(ctx context.Context, q store.AgentQuery) ([]agent.Agent, error) {
	limit, at := max(q.Limit, 0), q.AsksFirst.At
	var out []agent.Agent
	for _, part := range []struct {
		first bool
		read  func(context.Context, query.FindAgentsParams) ([]query.Agent, error)
	}{{true, s.asking}, {false, s.read.FindAgents}} {
		if part.first && q.AsksFirst.Past {
			continue
		}
		for p := q; len(out) < limit; {
			p.Limit = limit - len(out)
			rows, err := s.find(ctx, p, part.read)
			if err != nil {
				return nil, fmt.Errorf("list agents: %w", err)
			}
			agents, err := agentsOf(rows)
			if err != nil {
				return nil, err
			}
			for _, a := range agents {
				if a.AskedBy(at) == part.first {
					out = append(out, a)
				}
				p.BeforeTime, p.BeforeID = a.CreatedAt, a.ID
			}
			if len(rows) < p.Limit {
				break
			}
		}
		q.BeforeTime, q.BeforeID = time.Time{}, "" // start at the beginning of the second group
	}
	return out, nil
}

// find lists the agents from read that match the filter. Text is matched here,
// because databases differ in how they handle letters and JSON.
func (s *Store) find(ctx context.Context, q store.AgentQuery, read func(context.Context, query.FindAgentsParams) ([]query.Agent, error)) ([]query.Agent, error) {
	in := query.FindAgentsParams{
		UserID: q.UserID, Archived: number(q.IncludeArchived || slices.Contains(q.Statuses, store.Archived)), Since: math.MinInt64, Until: math.MaxInt64, AnyStanding: number(len(q.Statuses) == 0),
		FiledAway: number(slices.Contains(q.Statuses, store.Archived)), Asks: number(slices.Contains(q.Statuses, store.Asks)), NeedsYou: number(slices.Contains(q.Statuses, store.NeedsYou)), NewsSince: nanos(q.NewsSince),
	}
	if !q.From.IsZero() {
		in.Since = nanos(q.From)
	}
	if !q.To.IsZero() {
		in.Until = nanos(q.To)
	}
	for _, status := range q.Statuses {
		if of := statuses[status]; of != "" {
			in.Statuses += "," + of + ","
		}
	}
	repository, pull := strings.TrimSpace(q.Repository), strings.TrimSpace(q.PullRequest)
	var most int64
	in.BeforeTime, in.BeforeID, most = bounds(q.Page)
	in.Most = most
	if q.Search != "" || repository != "" || pull != "" {
		in.Most = findAmong
	}
	var all []query.Agent
	for int64(len(all)) < most {
		rows, err := read(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if (q.Search == "" || hasWords(searched(row), q.Search)) &&
				(repository == "" || hasRepository(row.Repos, repository)) && (pull == "" || hasPullRequest(row, pull)) {
				all = append(all, row)
			}
		}
		if int64(len(rows)) < in.Most {
			break
		}
		last := rows[len(rows)-1]
		in.BeforeTime, in.BeforeID = last.CreatedAt, last.ID
	}
	return all[:min(int64(len(all)), most)], nil
}
