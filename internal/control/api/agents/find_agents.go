package agents

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
	"aloft/internal/control/api/rest"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

const (
	maxSearch = 200            // runes of the search text
	failureIs = 24 * time.Hour // how long a failed run is listed as needing attention
)

func statusNames() string {
	var names []string
	for _, s := range store.ListStatuses {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

var findParams = []rest.Param{
	{Name: "includeArchived", Kind: "boolean", Standard: true, Words: "include archived agents"},
	{Name: "all", Kind: "boolean", Standard: false, Words: "include other members' agents that your role lets you see; an addition to the API"},
	{Name: "user", Kind: "string", Words: "only agents of the member with this ID from GET /v1/members; an addition to the API"},
	{Name: "search", Kind: "string", Words: "only agents with all of these words in id, name, model, repositories (with branches) or pull requests, ignoring case; an addition to the API"},
	{Name: "repository", Kind: "string", Words: "only agents on this repository: a URL, or the end of one (owner/name); an addition to the API"},
	{Name: "status", Kind: "string", Words: "comma-separated statuses: " + statusNames() + "; asks waits for an answer, the latest run of failed ended as ERROR or EXPIRED, needs-you asks or has failed within a day; an addition to the API"},
	{Name: "from", Kind: "string", Words: "created at or after this day or RFC 3339 time; an addition to the API"},
	{Name: "to", Kind: "string", Words: "created before this RFC 3339 time, or on or before this day; an addition to the API"},
	{Name: "order", Kind: "string", Words: "newest (default) or asks-first: agents waiting for an answer come before the others, each group newest first; an agent answered between two pages may be listed twice; an addition to the API"},
	{Name: "prUrl", Kind: "string", Words: "only agents that were started on this pull request or have opened it"},
}

// agentQuery parses the filters of a list of agents.
func agentQuery(q url.Values, who account.APIKey, now time.Time) (out store.AgentQuery, err error) {
	if out.IncludeArchived, err = rest.Boolean(q, "includeArchived", true); err != nil {
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
			return out, fault.Invalid("must have at most %d characters", maxSearch).At(name)
		}
	}
	for name := range strings.SplitSeq(q.Get("status"), ",") {
		switch status := store.ListStatus(strings.TrimSpace(name)); {
		case slices.Contains(store.ListStatuses, status):
			out.Statuses = append(out.Statuses, status)
		case status != "":
			return out, fault.Invalid("must be a comma-separated list of %s", statusNames()).At("status")
		}
	}
	if out.From, err = parseTime(q.Get("from"), "from", 0); err != nil {
		return out, err
	}
	if out.To, err = parseTime(q.Get("to"), "to", 1); err != nil {
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

// pageOfAgents parses limit and cursor for a list of agents. The cursor of the
// order asks-first holds the time of the first page and the section of the
// list.
func pageOfAgents(q url.Values, find *store.AgentQuery) (limit int, err error) {
	if find.AsksFirst == nil {
		find.Page, limit, err = rest.Page(q, rest.AgentList)
		return limit, err
	}
	if find.Page, limit, err = rest.Page(q, rest.AskingList); err != nil || find.BeforeID == "" {
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
		return 0, rest.BadCursor()
	}
	find.AsksFirst.At, find.BeforeID = time.Unix(0, at), part[2]
	return limit, nil
}

// cutAgents is like [cut], for a list of agents in the order of the query.
func cutAgents(find store.AgentQuery, all []agent.Agent, limit int) ([]agent.Agent, string) {
	first := find.AsksFirst
	if first == nil {
		return rest.Cut(rest.AgentList, all, limit, func(a agent.Agent) (time.Time, string) { return a.CreatedAt, a.ID })
	}
	return rest.Cut(rest.AskingList, all, limit, func(a agent.Agent) (time.Time, string) {
		part := "past"
		if !first.Past && a.AskedBy(first.At) {
			part = "asks"
		}
		return a.CreatedAt, fmt.Sprintf("%s %d %s", part, first.At.UnixNano(), a.ID)
	})
}

// owner returns the user whose agents are requested, or 0 for all users.
func owner(q url.Values, who account.APIKey) (int64, error) {
	all, err := rest.Boolean(q, "all", false)
	if err != nil {
		return 0, err
	}
	if q.Has("user") {
		id, err := strconv.ParseInt(q.Get("user"), 10, 64)
		switch {
		case err != nil || id < 1:
			return 0, fault.Invalid("must be the ID of a member").Hint("list members with GET /v1/members").At("user")
		case !who.MaySee(id):
			return 0, fault.Denied("your role lets you see your own agents only").Named(rest.CodeRole).At("user")
		}
		return id, nil
	}
	if all && who.MaySee(0) {
		return 0, nil
	}
	return who.UserID, nil
}

// parseTime parses a time, or a date, which means the start of that day plus the
// given number of days. Empty text gives the zero time.
func parseTime(text, field string, days int) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t.AddDate(0, 0, days), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 2200 { // the range of nanoseconds in 64 bits
		return t, fault.Invalid("must be a day (2030-01-31) or a time (2030-01-31T12:00:00Z), from 1970 to 2200").At(field)
	}
	return t, nil
}
