package api

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/fault"
)

const (
	maxLimit      = 100
	standardLimit = 20
)

// A list identifies the list that a cursor belongs to. A cursor is valid for
// its own list only.
type list string

const (
	agentList       list = "a"
	askingList      list = "q" // agents in the order asks-first
	secretList      list = "s"
	runList         list = "r"
	deliveryList    list = "w"
	environmentList list = "e"
	versionList     list = "v"
	buildList       list = "b"
	snapshotList    list = "n"
)

// page parses limit and cursor. The returned page asks for one element more
// than the limit, to find out whether there is a next page.
func page(q url.Values, of list) (p store.Page, limit int, err error) {
	if limit, err = integer(q, "limit", standardLimit, 1, maxLimit); err != nil {
		return p, 0, err
	}
	p.Limit = limit + 1
	if q.Has("cursor") {
		if p.BeforeTime, p.BeforeID, err = parseCursor(q.Get("cursor"), of); err != nil {
			return p, 0, err
		}
	}
	return p, limit, nil
}

// cut drops the extra element that [page] has asked for, and returns the cursor
// of the next page, or "" if there is none.
func cut[T any](of list, all []T, limit int, place func(T) (time.Time, string)) ([]T, string) {
	if len(all) <= limit {
		return all, ""
	}
	t, id := place(all[limit-1])
	return all[:limit], cursor(of, t, id)
}

// cursor encodes the position after the element with this key.
func cursor(of list, t time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(string(of) + " " + strconv.FormatInt(t.UnixNano(), 10) + " " + id))
}

// badCursor rejects a cursor that does not belong to the list.
func badCursor() error {
	return fault.Invalid("is not a cursor of this list").Hint("omit it to start from the first page").At("cursor")
}

func parseCursor(s string, of list) (time.Time, string, error) {
	bad := badCursor()
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
	if cursor(of, t, id) != s {
		return time.Time{}, "", bad
	}
	return t, id, nil
}

// integer parses a number from a query, with a default.
func integer(q url.Values, name string, standard, least, most int) (int, error) {
	if !q.Has(name) {
		return standard, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < least || n > most {
		return 0, fault.Invalid("must be a whole number from %d to %d", least, most).At(name)
	}
	return n, nil
}

// boolean parses true or false from a query, with a default. It also accepts
// Python's True and False.
func boolean(q url.Values, name string, standard bool) (bool, error) {
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
