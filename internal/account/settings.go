package account

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"aloft/internal/allowance"
)

// Settings are what an admin has settled for everybody.
type Settings struct {
	DefaultModel      string `json:"defaultModel,omitempty"`      // of agents that name none; "" is the server's
	DefaultRepository string `json:"defaultRepository,omitempty"` // of agents that name none; "" is none
	BaseBranch        string `json:"baseBranch,omitempty"`        // of repositories named without a ref; "" is their own
	HideSummary       bool   `json:"hideSummary,omitempty"`       // the dashboard's lists show no files and no code
	HideOutside       bool   `json:"hideOutside,omitempty"`       // nor do webhooks and other channels
	Privacy           bool   `json:"privacy,omitempty"`           // of runs: what agents are asked, say and do stays on this server
	RetentionDays     int    `json:"retentionDays,omitempty"`     // agents that nobody touches for so long are deleted; 0 is never
	// Limit is what each run of an agent may use at most; 0 of a kind is as the server has it.
	Limit        allowance.Amount `json:"limit,omitzero"`
	MachineDays  int              `json:"machineDays,omitempty"`  // machines that nobody uses for so long are removed; 0 is when the server does
	NetworkMode  string           `json:"networkMode,omitempty"`  // what machines may reach, as egressMode of an environment has it; "" is what the server allows
	NetworkAllow string           `json:"networkAllow,omitempty"` // domains, addresses and ranges that the mode lets in besides, with spaces between
}

// ShownOutside reports whether what an agent says may be told elsewhere, in runs
// that are not in privacy mode.
func (s Settings) ShownOutside() bool { return !s.HideSummary && !s.HideOutside }

// KeepMachines is how long a machine that nobody uses is kept, where the server
// keeps it for at most as long as given; 0 is for ever, of both.
func (s Settings) KeepMachines(most time.Duration) time.Duration {
	own := time.Duration(s.MachineDays) * 24 * time.Hour
	if own == 0 || most != 0 && most < own {
		return most
	}
	return own
}

// History is how settings were over time: what counts for an agent is what was
// settled when it was made. Its zero value has never been set.
type History struct {
	Versions []Version `json:"versions"` // the oldest first
}

// Version is settings, from a time on.
type Version struct {
	Since time.Time `json:"since"`
	Settings
}

// maxVersions is how many are remembered; who needs the first of more is older
// than anything that still runs.
const maxVersions = 1000

// ParseHistory reads what String wrote; "" is the zero value.
func ParseHistory(text string) (h History, err error) {
	if text == "" {
		return h, nil
	}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return h, fmt.Errorf("the team's settings: %w", err)
	}
	return h, nil
}

// String is what ParseHistory reads.
func (h History) String() string {
	data, _ := json.Marshal(h) // of strings, numbers and times
	return string(data)
}

// Now returns what counts for what begins now.
func (h History) Now() Settings {
	if len(h.Versions) == 0 {
		return Settings{}
	}
	return h.Versions[len(h.Versions)-1].Settings
}

// At returns what counted at the time.
func (h History) At(t time.Time) Settings {
	for _, v := range slices.Backward(h.Versions) {
		if !v.Since.After(t) {
			return v.Settings
		}
	}
	return Settings{}
}

// With returns the history in which s counts from the time on.
func (h History) With(s Settings, since time.Time) History {
	if n := len(h.Versions); n > 0 && h.Versions[n-1].Since.After(since) {
		since = h.Versions[n-1].Since // a clock that went back makes no gap
	}
	all := append(slices.Clone(h.Versions), Version{since, s})
	return History{all[max(0, len(all)-maxVersions):]}
}
