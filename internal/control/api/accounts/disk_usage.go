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
	sums := map[int64]ledger.Size{}
	for i, row := range rows {
		if _, ok := names[row.UserID]; !ok {
			names[row.UserID] = s.NameOf(r.Context(), row.UserID)
		}
		sums[row.UserID] = sums[row.UserID].Plus(row.Size)
		if i >= maxDiskItems {
			continue
		}
		item := diskItemJSON{
			Kind: string(row.Kind), ID: row.ID, AgentID: row.AgentID, UserID: row.UserID, User: names[row.UserID], Bytes: row.Bytes, Inodes: row.Inodes,
		}
		if !row.Measured.IsZero() {
			at := row.Measured.UTC()
			item.MeasuredAt = &at
		}
		out.Items = append(out.Items, item)
	}
	for id, n := range sums {
		out.People = append(out.People, diskPersonJSON{UserID: id, User: names[id], Bytes: n.Bytes, Inodes: n.Inodes})
	}
	slices.SortFunc(out.People, func(a, b diskPersonJSON) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.UserID, b.UserID))
	})
	return rest.WriteJSON(w, http.StatusOK, out)
}
