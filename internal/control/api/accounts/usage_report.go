package accounts

import (
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
)

type usageReportJSON struct {
	_     struct{}       `json:"-" additionalProperties:"true"`
	From  string         `json:"from" format:"date"`
	To    string         `json:"to" format:"date"`
	Items []usageRowJSON `json:"items" nullable:"false"`
}

type usageRowJSON struct {
	_          struct{} `json:"-" additionalProperties:"true"`
	Day        string   `json:"day" format:"date" doc:"day on which the runs started, in UTC"`
	UserID     int64    `json:"userId"`
	User       string   `json:"user,omitempty" doc:"name of the user"`
	Repository string   `json:"repository,omitempty" doc:"first repository of the agent"`
	Model      string   `json:"model,omitempty" doc:"absent for the server's default"`
	Runs       int64    `json:"runs"`
	Turns      int64    `json:"turns"`
	rest.Tokens
	rest.Cost
}

// Limits of a report, in days.
const (
	standardReport = 30
	maxReport      = 366
)

func (s *API) getUsageReport(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	today := time.Now().UTC().Truncate(24 * time.Hour)
	q := r.URL.Query()
	to, err := day(q.Get("to"), "to", today)
	if err != nil {
		return err
	}
	from, err := day(q.Get("from"), "from", to.AddDate(0, 0, 1-standardReport))
	if err != nil {
		return err
	}
	if n := to.Sub(from) / (24 * time.Hour); n < 0 || n >= maxReport {
		return fault.Invalid("from must not be after to, and they must be at most %d days apart", maxReport)
	}
	out := usageReportJSON{From: from.Format(time.DateOnly), To: to.Format(time.DateOnly), Items: []usageRowJSON{}}
	of := who.UserID
	if who.Role.Covers(account.Admin) {
		of = 0
	}
	rows, err := s.Usage.Usage(r.Context(), of, from, to.AddDate(0, 0, 1))
	if err != nil {
		return err
	}
	names := map[int64]string{}
	for _, row := range rows {
		if _, ok := names[row.UserID]; !ok {
			names[row.UserID] = s.NameOf(r.Context(), row.UserID)
		}
		out.Items = append(out.Items, usageRowJSON{
			Day: row.Day, UserID: row.UserID, User: names[row.UserID], Repository: row.Repo, Model: row.Model, Runs: row.Runs, Turns: row.Turns,
			Tokens: rest.TokensOf(row.Usage), Cost: rest.CostOf(row.Usage),
		})
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

// day parses a day. Empty text gives the default.
func day(text, field string, standard time.Time) (time.Time, error) {
	if text == "" {
		return standard, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, fault.Invalid("must be a day such as 2006-01-02").At(field)
	}
	return t, nil
}
