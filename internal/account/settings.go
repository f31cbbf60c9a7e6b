package account

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"aloft/internal/allowance"
)

// Settings are the team's settings.
type Settings struct {
	DefaultModel      string `json:"defaultModel,omitempty"`      // for agents that name no model; "" is the server's
	FastModel         string `json:"fastModel,omitempty"`         // for titles, summaries, the review of calls and other small tasks; "" is the server's
	DefaultRepository string `json:"defaultRepository,omitempty"` // for agents that name no repository; "" is none
	BaseBranch        string `json:"baseBranch,omitempty"`        // for repositories named without a ref; "" is the default branch
	HideSummary       bool   `json:"hideSummary,omitempty"`       // the dashboard's lists show no files and no code
	HideOutside       bool   `json:"hideOutside,omitempty"`       // webhooks and other channels show no files and no code
	Privacy           bool   `json:"privacy,omitempty"`           // privacy mode of runs: prompts, replies and actions stay on this server
	RetentionDays     int    `json:"retentionDays,omitempty"`     // agents that are unused for this many days are deleted; 0 means never
	// Limit is the maximum usage of each run. If a kind is 0, the server's limit applies.
	Limit        allowance.Amount `json:"limit,omitzero"`
	MachineDays  int              `json:"machineDays,omitempty"`  // machines that are unused for this many days are removed; 0 means the server's period
	NetworkMode  string           `json:"networkMode,omitempty"`  // network mode of machines, like egressMode of an environment; "" is the server's mode
	NoAutofix    bool             `json:"noAutofix,omitempty"`    // agents do not fix failed checks of their pull requests
	NetworkAllow string           `json:"networkAllow,omitempty"` // domains, addresses and ranges that the mode also allows, separated by spaces
	Memory       string           `json:"memory,omitempty"`       // whether agents write memories: [MemoryReview], [MemoryOn], or "" for no
	MemoryRepos  string           `json:"memoryRepos,omitempty"`  // patterns of the repositories to which Memory applies, separated by spaces; "" means all
}

// Values of [Settings.Memory].
const (
	MemoryReview = "review" // agents get a memory once a person has approved it
	MemoryOn     = "on"     // agents get a memory at once, unless a person other than the owner may have caused it
)

// MemoryFor returns the setting Memory for the repository, given as host/path.
func (s Settings) MemoryFor(repo string) string {
	patterns := strings.Fields(s.MemoryRepos)
	if s.MemoryRepos != "" && !slices.ContainsFunc(patterns, func(p string) bool { return matches(p, repo) }) {
		return ""
	}
	return s.Memory
}

// ShownOutside reports whether the messages of an agent may be sent to other services.
// It does not consider privacy mode.
func (s Settings) ShownOutside() bool { return !s.HideSummary && !s.HideOutside }

// KeepMachines returns how long an unused machine is kept. limit is the server's
// maximum. In both, 0 means no limit.
func (s Settings) KeepMachines(limit time.Duration) time.Duration {
	own := time.Duration(s.MachineDays) * 24 * time.Hour
	if own == 0 || limit != 0 && limit < own {
		return limit
	}
	return own
}

// History holds all versions of the settings, because an agent uses the version that
// applied when it was created. The zero value has the defaults.
type History struct {
	Versions []Version `json:"versions"` // oldest first
}

// Version is the settings from a point in time.
type Version struct {
	Since time.Time `json:"since"`
	Settings
}

// maxVersions is how many versions are kept. No running agent needs older versions.
const maxVersions = 1000

// ParseHistory parses the result of String; "" is the zero value.
func ParseHistory(text string) (h History, err error) {
	if text == "" {
		return h, nil
	}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return h, fmt.Errorf("the team's settings: %w", err)
	}
	return h, nil
}

// String returns the JSON that ParseHistory parses.
func (h History) String() string {
	data, _ := json.Marshal(h) // cannot fail: only strings, numbers and times
	return string(data)
}

// Now returns the current settings.
func (h History) Now() Settings {
	if len(h.Versions) == 0 {
		return Settings{}
	}
	return h.Versions[len(h.Versions)-1].Settings
}

// At returns the settings at the given time.
func (h History) At(t time.Time) Settings {
	for _, v := range slices.Backward(h.Versions) {
		if !v.Since.After(t) {
			return v.Settings
		}
	}
	return Settings{}
}

// With returns the history with s added, which applies from the given time.
func (h History) With(s Settings, since time.Time) History {
	if n := len(h.Versions); n > 0 && h.Versions[n-1].Since.After(since) {
		since = h.Versions[n-1].Since // the clock was set back
	}
	all := append(slices.Clone(h.Versions), Version{since, s})
	return History{all[max(0, len(all)-maxVersions):]}
}
