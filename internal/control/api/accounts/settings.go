package accounts

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/allowance"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/policy"
)

// maxRetention is the longest retention period for agents, in days.
const maxRetention = 3650

type settingsJSON struct {
	_                  struct{} `json:"-" additionalProperties:"true"`
	DefaultModel       string   `json:"defaultModel" doc:"of agents that name none; empty is the server's default"`
	FastModel          string   `json:"fastModel" doc:"of titles, summaries, the review of calls and subagents with small tasks; empty is the server's"`
	DefaultRepository  string   `json:"defaultRepository" doc:"of agents that name none; empty is none"`
	BaseBranch         string   `json:"baseBranch" doc:"of repositories named without a ref; empty is the repository's default branch"`
	DisplaySummary     bool     `json:"displayAgentSummary" doc:"show what agents do and ask, including files and code, and titles of pull requests in lists and notifications"`
	DisplaySummaryAway bool     `json:"displayAgentSummaryExternally" doc:"show them in webhooks and other channels too"`
	PrivacyMode        bool     `json:"privacyMode" doc:"keep prompts, answers, paths and code out of commit messages, branch names, pull requests, webhooks, /v0 and telemetry; each run uses the setting at the time it was requested"`
	RetentionDays      int      `json:"retentionDays" minimum:"0" maximum:"3650" doc:"days until an unused agent is deleted; 0 is never"`
	MaxTurns           int64    `json:"maxTurns" minimum:"0" doc:"model replies after which a run ends as EXPIRED; for this and the three limits below, the server's limit is the default (0) and the maximum"`
	MaxTokens          int64    `json:"maxTokens" minimum:"0" doc:"tokens after which a run ends, including subagents'"`
	MaxCostUSD         float64  `json:"maxCostUsd" minimum:"0" doc:"US dollars after which a run ends; requires a price for every model"`
	MaxSeconds         int64    `json:"maxSeconds" minimum:"0" doc:"seconds after which a run ends, not counting time spent waiting for people"`
	Memory             string   `json:"memory" enum:"off,review,on" doc:"whether agents write down what later agents on the repository get. review: once a person has approved it. on: at once, except from agents that a mention or comments on a pull request have started"`
	MemoryRepositories []string `json:"memoryRepositories" nullable:"false" doc:"repositories to which memory applies: host/owner/name, host/owner/* or *; empty is all"`
	NetworkMode        string   `json:"networkMode" enum:"allow_all,default_with_network_settings,network_settings_only" doc:"what machines may connect to: everything that the server allows; package and source hosts and the list; or only the list. An environment can restrict it further"`
	NetworkAllowlist   []string `json:"networkAllowlist" nullable:"false" doc:"additional domains, *.domains, addresses and ranges that machines may connect to"`
	FixChecks          bool     `json:"fixFailedChecks" doc:"agents fix failed checks of the pull requests that they have opened"`
	MachineDays        int      `json:"machineRetentionDays" minimum:"0" maximum:"3650" doc:"days until an unused machine and its disk are deleted; the server's value is the default (0) and the maximum"`
}

type updateSettingsRequestJSON struct {
	_                  struct{}  `json:"-" additionalProperties:"true"`
	DefaultModel       *string   `json:"defaultModel,omitempty"`
	FastModel          *string   `json:"fastModel,omitempty"`
	DefaultRepository  *string   `json:"defaultRepository,omitempty"`
	BaseBranch         *string   `json:"baseBranch,omitempty"`
	DisplaySummary     *bool     `json:"displayAgentSummary,omitempty"`
	DisplaySummaryAway *bool     `json:"displayAgentSummaryExternally,omitempty"`
	PrivacyMode        *bool     `json:"privacyMode,omitempty"`
	RetentionDays      *int      `json:"retentionDays,omitempty" minimum:"0" maximum:"3650"`
	MaxTurns           *int64    `json:"maxTurns,omitempty" minimum:"0"`
	MaxTokens          *int64    `json:"maxTokens,omitempty" minimum:"0"`
	MaxCostUSD         *float64  `json:"maxCostUsd,omitempty" minimum:"0"`
	MaxSeconds         *int64    `json:"maxSeconds,omitempty" minimum:"0"`
	MachineDays        *int      `json:"machineRetentionDays,omitempty" minimum:"0" maximum:"3650"`
	FixChecks          *bool     `json:"fixFailedChecks,omitempty"`
	NetworkMode        *string   `json:"networkMode,omitempty" enum:"allow_all,default_with_network_settings,network_settings_only"`
	Memory             *string   `json:"memory,omitempty" enum:"off,review,on"`
	MemoryRepositories *[]string `json:"memoryRepositories,omitempty" maxItems:"100" nullable:"false"`
	NetworkAllowlist   *[]string `json:"networkAllowlist,omitempty" maxItems:"1000" nullable:"false"`
}

func settingsOf(s account.Settings) settingsJSON {
	return settingsJSON{
		DefaultModel: s.DefaultModel, FastModel: s.FastModel, DefaultRepository: s.DefaultRepository, BaseBranch: s.BaseBranch,
		DisplaySummary: !s.HideSummary, DisplaySummaryAway: !s.HideOutside, PrivacyMode: s.Privacy, FixChecks: !s.NoAutofix, RetentionDays: s.RetentionDays, MachineDays: s.MachineDays,
		MaxTurns: s.Limit.Turns, MaxTokens: s.Limit.Tokens, MaxCostUSD: float64(s.Limit.Cost) / allowance.Dollar, MaxSeconds: s.Limit.Seconds,
		Memory: cmp.Or(s.Memory, memoryOff), MemoryRepositories: append([]string{}, strings.Fields(s.MemoryRepos)...),
		NetworkMode: cmp.Or(s.NetworkMode, policy.EnvironmentAllowAll), NetworkAllowlist: append([]string{}, strings.Fields(s.NetworkAllow)...),
	}
}

func (s *API) settingsRoutes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/settings", ID: "getSettings", Summary: "Show the team's settings", Status: 200, Out: settingsJSON{}, Handle: s.getSettings},
		{Method: "PATCH", Path: "/v1/settings", ID: "updateSettings", Summary: "Change the team's settings; admins only", Needs: account.Admin,
			In: updateSettingsRequestJSON{}, Status: 200, Out: settingsJSON{}, Handle: s.updateSettings},
		{Method: "GET", Path: "/v1/usage", ID: "getUsageReport", Summary: "Show token usage by day, person, repository and model: yours, or everybody's for admins",
			Query: []rest.Param{
				{Name: "from", Kind: "string", Words: "first day, such as 2006-01-02; default 30 days ago"},
				{Name: "to", Kind: "string", Words: "last day; default today"},
			},
			Status: 200, Out: usageReportJSON{}, Handle: s.getUsageReport},
		{Method: "GET", Path: "/v1/usage/disk", ID: "getDiskUsage", Summary: "Show what uses the server's disk: what is yours, or everything for admins",
			Status: 200, Out: diskUsageJSON{}, Handle: s.getDiskUsage},
	}
}

func (s *API) getSettings(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	h, err := store.Settings(r.Context(), s.Rules)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, settingsOf(h.Now()))
}

func (s *API) updateSettings(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	var in updateSettingsRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	s.settling.Lock() // two concurrent updates would undo each other
	defer s.settling.Unlock()
	h, err := store.Settings(r.Context(), s.Rules)
	if err != nil {
		return err
	}
	now := h.Now()
	if err := s.applySettings(&now, in); err != nil {
		return err
	}
	if now != h.Now() {
		if err := store.PutSettings(r.Context(), s.Rules, h.With(now, time.Now())); err != nil {
			return err
		}
	}
	return rest.WriteJSON(w, http.StatusOK, settingsOf(now))
}

// applySettings applies the requested changes to the settings.
func (s *API) applySettings(to *account.Settings, in updateSettingsRequestJSON) error {
	for _, m := range []struct {
		field string
		in    *string
		to    *string
	}{{"defaultModel", in.DefaultModel, &to.DefaultModel}, {"fastModel", in.FastModel, &to.FastModel}} {
		if m.in == nil {
			continue
		}
		*m.to = ""
		if *m.in != "" {
			id, err := s.models.Choices().Find(model.Ref{ID: *m.in})
			if err != nil {
				return fault.Of(err).At(m.field)
			}
			*m.to = id
		}
	}
	if in.DefaultRepository != nil {
		to.DefaultRepository = ""
		if *in.DefaultRepository != "" {
			url, err := agents.RepoURL(*in.DefaultRepository, s.AllowFile)
			if err != nil {
				return fault.Of(err).At("defaultRepository")
			}
			to.DefaultRepository = url
		}
	}
	if in.BaseBranch != nil {
		if *in.BaseBranch != "" && !agents.ValidRef(*in.BaseBranch) {
			return fault.Invalid("%s is not a valid branch name", fault.Quoted(*in.BaseBranch)).At("baseBranch")
		}
		to.BaseBranch = *in.BaseBranch
	}
	if in.DisplaySummary != nil {
		to.HideSummary = !*in.DisplaySummary
	}
	if in.DisplaySummaryAway != nil {
		to.HideOutside = !*in.DisplaySummaryAway
	}
	if in.PrivacyMode != nil {
		to.Privacy = *in.PrivacyMode
	}
	if in.FixChecks != nil {
		to.NoAutofix = !*in.FixChecks
	}
	if err := settleMemory(to, in.Memory, in.MemoryRepositories); err != nil {
		return err
	}
	if err := settleNetwork(to, in.NetworkMode, in.NetworkAllowlist); err != nil {
		return err
	}
	if in.RetentionDays != nil {
		if to.RetentionDays = *in.RetentionDays; to.RetentionDays < 0 || to.RetentionDays > maxRetention {
			return fault.Invalid("must be a number of days from 0 to %d", maxRetention).At("retentionDays")
		}
	}
	if err := s.settleLimit(&to.Limit, in); err != nil {
		return err
	}
	if in.MachineDays != nil {
		if to.MachineDays = *in.MachineDays; to.MachineDays < 0 || to.MachineDays > maxRetention {
			return fault.Invalid("must be a number of days from 0 to %d", maxRetention).At("machineRetentionDays")
		}
		if own := time.Duration(to.MachineDays) * 24 * time.Hour; s.MachineRetention != 0 && own > s.MachineRetention {
			return fault.Invalid("exceeds the server's limit of %.4g days", s.MachineRetention.Hours()/24).At("machineRetentionDays").
				Hint("use fewer days, or 0 for the server's value, or ask the operator to raise machine.retention_days")
		}
	}
	return nil
}

const (
	memoryOff      = "off" // stored as ""
	maxMemoryRepos = 100
)

// settleMemory applies the requested settings of memories.
func settleMemory(to *account.Settings, mode *string, repos *[]string) error {
	if mode != nil {
		switch to.Memory = *mode; *mode {
		case memoryOff:
			to.Memory = ""
		case account.MemoryReview, account.MemoryOn:
		default:
			return fault.Invalid("must be %s, %s or %s", memoryOff, account.MemoryReview, account.MemoryOn).At("memory")
		}
	}
	if repos == nil {
		return nil
	}
	if len(*repos) > maxMemoryRepos {
		return fault.Invalid("has %d entries; the limit is %d", len(*repos), maxMemoryRepos).At("memoryRepositories")
	}
	list, err := patterns(*repos, "memoryRepositories")
	to.MemoryRepos = strings.Join(list, " ")
	return err
}

// maxNetworkList is the maximum length of the team's network allow list.
const maxNetworkList = 1000

// settleNetwork applies the requested network mode and list.
func settleNetwork(to *account.Settings, mode *string, list *[]string) error {
	if mode != nil {
		switch to.NetworkMode = *mode; *mode {
		case policy.EnvironmentAllowAll:
			to.NetworkMode = "" // the default is stored as ""
		case policy.EnvironmentDefaultPlus, policy.EnvironmentSettingsOnly:
		default:
			return fault.Invalid("must be %s, %s or %s", policy.EnvironmentAllowAll, policy.EnvironmentDefaultPlus, policy.EnvironmentSettingsOnly).At("networkMode")
		}
	}
	if list == nil {
		return nil
	}
	if len(*list) > maxNetworkList {
		return fault.Invalid("has %d entries; the limit is %d", len(*list), maxNetworkList).At("networkAllowlist")
	}
	if _, err := policy.ForEnvironment(policy.EnvironmentSettingsOnly, *list); err != nil {
		return fault.Invalid("%v", err).At("networkAllowlist").Hint("use domains such as example.com or *.example.com, addresses, or ranges such as 192.0.2.0/24")
	}
	to.NetworkAllow = strings.Join(*list, " ")
	return nil
}
