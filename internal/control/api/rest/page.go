package rest

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// Sizes of a page: the maximum and the default.
const (
	MaxLimit      = 100
	StandardLimit = 20
)

// A List identifies the list that a cursor belongs to. A cursor is valid for
// its own list only.
type List string

// The lists that have cursors.
const (
	AgentList       List = "a"
	AskingList      List = "q" // agents in the order asks-first
	SecretList      List = "s"
	RunList         List = "r"
	DeliveryList    List = "w"
	EnvironmentList List = "e"
	VersionList     List = "v"
	BuildList       List = "b"
	SnapshotList    List = "n"
)

// Page parses limit and cursor. The returned page size is the limit plus one,
// to find out whether there is a next page.
func Page(q url.Values, of List) (p store.Page, limit int, err error) {
	if limit, err = Integer(q, "limit", StandardLimit, 1, MaxLimit); err != nil {
		return p, 0, err
	}
	p.Limit = limit + 1
	if q.Has("cursor") {
		if p.BeforeTime, p.BeforeID, err = ParseCursor(q.Get("cursor"), of); err != nil {
			return p, 0, err
		}
	}
	return p, limit, nil
}

// Cut drops the extra element of [Page], and returns the cursor of the next
// page, or "" if there is none.
func Cut[T any](of List, all []T, limit int, place func(T) (time.Time, string)) ([]T, string) {
	if len(all) <= limit {
		return all, ""
	}
	t, id := place(all[limit-1])
	return all[:limit], Cursor(of, t, id)
}

// Cursor encodes the position after the element with this key.
func Cursor(of List, t time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(string(of) + " " + strconv.FormatInt(t.UnixNano(), 10) + " " + id))
}

// BadCursor rejects a cursor that does not belong to the list.
func BadCursor() error {
	return fault.Invalid("is not a cursor of this list").Hint("omit it to start from the first page").At("cursor")
}

// ParseCursor decodes a cursor of the list.
func ParseCursor(s string, of List) (time.Time, string, error) {
	bad := BadCursor()
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return time.Time{}, "", bad
	}
	part := strings.SplitN(string(b), " ", 3)
	if len(part) != 3 || part[0] != string(of) || part[2] == "" {
		return time.Time{}, "", bad
	}
	nano, err := strconv.ParseInt(part[1], 10, 64)
	if err != nil || nano <= 0 {
		return time.Time{}, "", bad
	}
	t, id := time.Unix(0, nano).UTC(), part[2]
	if Cursor(of, t, id) != s {
		return time.Time{}, "", bad
	}
	return t, id, nil
}

// Integer parses a number from a query, with a default.
func Integer(q url.Values, name string, standard, least, most int) (int, error) {
	if !q.Has(name) {
		return standard, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < least || n > most {
		return 0, fault.Invalid("must be a whole number from %d to %d", least, most).At(name)
	}
	return n, nil
}

// Boolean parses true or false from a query, with a default. It also accepts
// Python's True and False.
func Boolean(q url.Values, name string, standard bool) (bool, error) {
	if !q.Has(name) {
		return standard, nil
	}
	switch strings.ToLower(q.Get(name)) {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, fault.Invalid("must be true or false").At(name)
}

// Tokens counts tokens in the API's form. Its names differ from the journal's
// [conversation.Usage] because the public API prescribes them, and stored
// journals keep the old names.
type Tokens struct {
	InputTokens      int64 `json:"inputTokens" minimum:"0" doc:"not including cache reads and writes"`
	OutputTokens     int64 `json:"outputTokens" minimum:"0"`
	CacheReadTokens  int64 `json:"cacheReadTokens" minimum:"0"`
	CacheWriteTokens int64 `json:"cacheWriteTokens" minimum:"0"`
}

// TokensOf returns the tokens of u in the API's form.
func TokensOf(u conversation.Usage) Tokens {
	return Tokens{InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite}
}

// Cost is the cost of tokens, and the number of tokens without a known price.
type Cost struct {
	CostUSD        *float64 `json:"costUsd,omitempty" minimum:"0" doc:"in US dollars, at the prices when the tokens were used; absent if no price is known; an addition to the API"`
	UnpricedTokens int64    `json:"unpricedTokens,omitempty" minimum:"0" doc:"tokens not included in costUsd because their price is unknown; an addition to the API"`
}

// CostOf returns what the tokens cost.
func CostOf(u conversation.Usage) Cost {
	out := Cost{UnpricedTokens: u.Total() - u.Priced}
	if u.Priced > 0 || u.Total() == 0 {
		usd := float64(u.Cost) / 1e9
		out.CostUSD = &usd
	}
	return out
}
