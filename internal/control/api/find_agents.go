package api

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

const (
	maxSearch = 200            // runes of what is looked for
	failureIs = 24 * time.Hour // for how long a failure needs a person
)

func standingNames() string {
	var names []string
	for _, s := range store.Standings {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

var findParams = []param{
	{name: "includeArchived", kind: "boolean", standard: true, words: "archived agents too"},
	{name: "all", kind: "boolean", standard: false, words: "everybody's, as far as your role lets you see them; an addition to the API"},
	{name: "user", kind: "string", words: "of this person only, by the number that GET /v1/members gives; an addition to the API"},
	{name: "search", kind: "string", words: "every word of it is in the agent's id, name, model, repositories (with branches) or pull requests, in whatever case; an addition to the API"},
	{name: "repository", kind: "string", words: "an address, or how one ends (owner/name); an addition to the API"},
	{name: "status", kind: "string", words: "how the agent stands: any of " + standingNames() + ", with commas between them; asks waits for an answer, failed has the latest run end in ERROR or EXPIRED, needs-you asks or has failed within a day; an addition to the API"},
	{name: "from", kind: "string", words: "made at this time or later, a day or RFC 3339; an addition to the API"},
	{name: "to", kind: "string", words: "made before this time, or on this day or before; an addition to the API"},
	{name: "order", kind: "string", words: "newest (as if absent) or asks-first: agents that wait for an answer come before the others, each part newest first; an agent that is answered between two pages may be listed twice; an addition to the API"},
	{name: "prUrl", kind: "string", words: "that were started on this pull request, or have opened it"},
}

// agentQuery reads which agents to list.
func agentQuery(q url.Values, who account.APIKey, now time.Time) (out store.AgentQuery, err error) {
	if out.IncludeArchived, err = boolean(q, "includeArchived", true); err != nil {
		return out, err
	}
	if out.UserID, err = owner(q, who); err != nil {
		return out, err
	}
	out.Search, out.Repository, out.NewsSince = q.Get("search"), q.Get("repository"), now.Add(-failureIs)
	if out.PullRequest = q.Get("prUrl"); out.PullRequest != "" {
		if _, _, err := forge.ParsePullRequestURL(out.PullRequest); err != nil {
			return out, fault.Of(err).At("prUrl")
		}
	}
	for name, text := range map[string]string{"search": out.Search, "repository": out.Repository} {
		if utf8.RuneCountInString(text) > maxSearch {
			return out, fault.Invalid("may have %d characters", maxSearch).At(name)
		}
	}
	for name := range strings.SplitSeq(q.Get("status"), ",") {
		switch standing := store.Standing(strings.TrimSpace(name)); {
		case slices.Contains(store.Standings, standing):
			out.Standings = append(out.Standings, standing)
		case standing != "":
			return out, fault.Invalid("must be of %s, with commas between them", standingNames()).At("status")
		}
	}
	if out.From, err = moment(q.Get("from"), "from", 0); err != nil {
		return out, err
	}
	if out.To, err = moment(q.Get("to"), "to", 1); err != nil {
		return out, err
	}
	switch q.Get("order") {
	case "", "newest":
	case "asks-first":
		out.AsksFirst = &store.AsksFirst{At: now}
	default:
		return out, fault.Invalid("must be newest or asks-first").At("order")
	}
	return out, nil
}

// pageOfAgents reads limit and cursor into the query of a list of agents. The
// cursor of the order asks-first carries the moment of the first page and the
// part of the list that it is in.
func pageOfAgents(q url.Values, find *store.AgentQuery) (limit int, err error) {
	if find.AsksFirst == nil {
		find.Page, limit, err = page(q, agentList)
		return limit, err
	}
	if find.Page, limit, err = page(q, askingList); err != nil || find.BeforeID == "" {
		return limit, err
	}
	part := strings.SplitN(find.BeforeID, " ", 3)
	at, bad := int64(0), len(part) != 3
	if !bad {
		find.AsksFirst.Past = part[0] == "past"
		at, err = strconv.ParseInt(part[1], 10, 64)
		bad = err != nil || (part[0] != "asks" && part[0] != "past")
	}
	if bad {
		return 0, badCursor()
	}
	find.AsksFirst.At, find.BeforeID = time.Unix(0, at), part[2]
	return limit, nil
}

// cutAgents is [cut] for a list of agents in the order of the query.
func cutAgents(find store.AgentQuery, all []agent.Agent, limit int) ([]agent.Agent, string) {
	first := find.AsksFirst
	if first == nil {
		return cut(agentList, all, limit, func(a agent.Agent) (time.Time, string) { return a.CreatedAt, a.ID })
	}
	return cut(askingList, all, limit, func(a agent.Agent) (time.Time, string) {
		part := "past"
		if !first.Past && a.AskedBy(first.At) {
			part = "asks"
		}
		return a.CreatedAt, fmt.Sprintf("%s %d %s", part, first.At.UnixNano(), a.ID)
	})
}

// owner is whose agents are asked for, 0 for everybody's.
func owner(q url.Values, who account.APIKey) (int64, error) {
	all, err := boolean(q, "all", false)
	if err != nil {
		return 0, err
	}
	if q.Has("user") {
		id, err := strconv.ParseInt(q.Get("user"), 10, 64)
		switch {
		case err != nil || id < 1:
			return 0, fault.Invalid("must be the number of a member").Hint("GET /v1/members lists them").At("user")
		case !who.MaySee(id):
			return 0, fault.Denied("your role lets you see your own agents only").Named(codeRole).At("user")
		}
		return id, nil
	}
	if all && who.MaySee(0) {
		return 0, nil
	}
	return who.UserID, nil
}

// moment reads a time, or the beginning of so many days after a day. Nothing is
// the zero time.
func moment(text, field string, days int) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t.AddDate(0, 0, days), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 2200 { // what nanoseconds of 64 bits hold
		return t, fault.Invalid("must be a day (2030-01-31) or a time (2030-01-31T12:00:00Z), from 1970 to 2200").At(field)
	}
	return t, nil
}
