package accounts

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/ledger"
)

type diskUsageJSON struct {
	_           struct{}         `json:"-" additionalProperties:"true"`
	QuotaBytes  int64            `json:"quotaBytes" doc:"limit of each person; 0 is no limit"`
	QuotaInodes int64            `json:"quotaInodes" doc:"limit of each person; 0 is no limit"`
	People      []diskPersonJSON `json:"people" nullable:"false" doc:"sums, the largest first"`
	Items       []diskItemJSON   `json:"items" nullable:"false" doc:"the largest, at most 1000"`
	Held        []heldJSON       `json:"held" nullable:"false" doc:"what people and agents have open at this server at the moment, at most 1000"`
	Omitted     int              `json:"omitted" doc:"how many smaller items are not listed; the sums include them"`
	Incomplete  bool             `json:"incomplete" doc:"whether something could not be measured"`
}

type diskPersonJSON struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	UserID int64    `json:"userId" doc:"0 for the server"`
	User   string   `json:"user,omitempty" doc:"name of the user"`
	Bytes  int64    `json:"bytes"`
	Inodes int64    `json:"inodes"`
}

type diskItemJSON struct {
	_          struct{}   `json:"-" additionalProperties:"true"`
	Kind       string     `json:"kind" doc:"machine, layer, journal, artifacts, log, mirror, image or cache"`
	ID         string     `json:"id"`
	AgentID    string     `json:"agentId,omitempty"`
	UserID     int64      `json:"userId" doc:"0 for the server"`
	User       string     `json:"user,omitempty" doc:"name of the user"`
	Bytes      int64      `json:"bytes"`
	Inodes     int64      `json:"inodes"`
	MeasuredAt *time.Time `json:"measuredAt,omitempty" doc:"absent if it was never measured"`
}

type heldJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Kind    string   `json:"kind" doc:"stream, request (with a large body), push or event"`
	AgentID string   `json:"agentId,omitempty"`
	UserID  int64    `json:"userId" doc:"0 for nobody that the server knows"`
	User    string   `json:"user,omitempty" doc:"name of the user"`
	Count   int      `json:"count"`
	Bytes   int64    `json:"bytes" doc:"memory that they may take"`
}

// maxDiskItems is how many rows a reply lists.
const maxDiskItems = 1000

func (s *API) getDiskUsage(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	of := who.UserID
	if who.Role.Covers(account.Admin) {
		of = 0
	}
	rows, err := s.Disk.Rows(r.Context(), of)
	if r.Context().Err() != nil {
		return err
	}
	if err != nil {
		s.Logger.WarnContext(r.Context(), "cannot measure everything that uses the disk", "error", err)
	}
	out := diskUsageJSON{
		QuotaBytes: s.DiskQuota.Bytes, QuotaInodes: s.DiskQuota.Inodes, People: []diskPersonJSON{}, Items: []diskItemJSON{},
		Omitted: max(0, len(rows)-maxDiskItems), Incomplete: err != nil,
	}
	names := map[int64]string{0: ""}
	nameOf := func(userID int64) string {
		if _, ok := names[userID]; !ok {
			names[userID] = s.NameOf(r.Context(), userID)
		}
		return names[userID]
	}
	sums := map[int64]ledger.Size{}
	for i, row := range rows {
		name := nameOf(row.UserID)
		sums[row.UserID] = sums[row.UserID].Plus(row.Size)
		if i >= maxDiskItems {
			continue
		}
		item := diskItemJSON{
			Kind: string(row.Kind), ID: row.ID, AgentID: row.AgentID, UserID: row.UserID, User: name, Bytes: row.Bytes, Inodes: row.Inodes,
		}
		if !row.Measured.IsZero() {
			at := row.Measured.UTC()
			item.MeasuredAt = &at
		}
		out.Items = append(out.Items, item)
	}
	held := s.Disk.Held(of)
	out.Held = make([]heldJSON, 0, len(held))
	for _, h := range held[:min(len(held), maxDiskItems)] {
		out.Held = append(out.Held, heldJSON{Kind: string(h.Kind), AgentID: h.AgentID, UserID: h.UserID, User: nameOf(h.UserID), Count: h.Count, Bytes: h.Bytes})
	}
	for id, n := range sums {
		out.People = append(out.People, diskPersonJSON{UserID: id, User: names[id], Bytes: n.Bytes, Inodes: n.Inodes})
	}
	slices.SortFunc(out.People, func(a, b diskPersonJSON) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.UserID, b.UserID))
	})
	return rest.WriteJSON(w, http.StatusOK, out)
}
