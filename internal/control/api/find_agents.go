package api

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/account"
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
	{name: "search", kind: "string", words: "every word of it is in the agent's id, name, model or repositories, in whatever case; an addition to the API"},
	{name: "repository", kind: "string", words: "an address, or how one ends (owner/name); an addition to the API"},
	{name: "status", kind: "string", words: "how the agent stands: any of " + standingNames() + ", with commas between them; needs-you waits for an answer, or has failed within a day; an addition to the API"},
	{name: "from", kind: "string", words: "made at this time or later, a day or RFC 3339; an addition to the API"},
	{name: "to", kind: "string", words: "made before this time, or on this day or before; an addition to the API"},
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
	out.To, err = moment(q.Get("to"), "to", 1)
	return out, err
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
			return 0, fault.Denied("your role lets you see your own agents only").At("user")
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
