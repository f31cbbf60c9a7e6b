package agents

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/approvals"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/pulls"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

type agentEnvJSON struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	Type   string   `json:"type" enum:"cloud,pool,machine"`
	Name   *string  `json:"name,omitempty" minLength:"1" maxLength:"255" doc:"name of a saved environment, yours or else the team's; it is used instead of the repository's file, and if repos is absent the agent gets the environment's repositories"`
	Preset string   `json:"preset,omitempty" enum:"setup,vmSetupHelper,review" doc:"setup: a machine for a person to set up, which uses no model; vmSetupHelper: an agent that does it; review: a reviewer, which only the field review of a request makes; an addition to the API"`
	Image  string   `json:"image,omitempty" doc:"for the preset setup: the image of its machine; an addition to the API"`
}

// AgentSummary is an agent as lists show it.
type AgentSummary struct {
	_           struct{}     `json:"-" additionalProperties:"true"`
	ID          string       `json:"id"`
	Name        string       `json:"name,omitempty"`
	Status      string       `json:"status" enum:"ACTIVE,ARCHIVED"`
	Env         agentEnvJSON `json:"env"`
	URL         string       `json:"url" format:"uri"`
	CreatedAt   time.Time    `json:"createdAt"`
	UpdatedAt   time.Time    `json:"updatedAt"`
	LatestRunID string       `json:"latestRunId,omitempty"`
	UserID      int64        `json:"userId" doc:"ID of its owner; an addition to the API"`
	DeletedAt   *time.Time   `json:"deletedAt,omitempty" doc:"when it will be deleted unless it is used, according to the team's settings; an addition to the API"`
	WaitsSince  *time.Time   `json:"waitingSince,omitempty" doc:"when the oldest of these requests was made; an addition to the API"`
	Waiting     int          `json:"waitingApprovals,omitempty" doc:"number of requests waiting for your answer; an addition to the API"`

	Repos     []repoConfigJSON `json:"repos,omitempty" nullable:"false"`
	Machine   string           `json:"machine,omitempty" doc:"booting, ready, hibernated (it wakes when needed) or lost; absent if there is none"`
	Paused    bool             `json:"paused,omitempty" doc:"the agent is paused before its next step until it is resumed"`
	RunStatus string           `json:"runStatus,omitempty" enum:"CREATING,RUNNING,FINISHED,ERROR,CANCELLED,EXPIRED" doc:"of the latest run; an addition to the API"`
	// Lists include pull requests, so that people see the results.
	PullRequests []pulls.PullRequest     `json:"pullRequests,omitempty" nullable:"false" doc:"of its branches, as last fetched; an addition to the API"`
	Doing        string                  `json:"doing,omitempty" doc:"current activity, in a few words from its machine and model, or why its run failed; an addition to the API"`
	Limits       *modelchoice.AmountJSON `json:"limits,omitempty" doc:"of the latest run, as in the run; an addition to the API"`
	Used         *modelchoice.AmountJSON `json:"used,omitempty" doc:"of the latest run, as in the run; an addition to the API"`
	// Hidden is set only in lists: a reply about a single agent contains
	// everything.
	Hidden bool `json:"summaryHidden,omitempty" doc:"the team hides summaries in lists: the agent's activity and the titles of its pull requests are left out; an addition to the API"`
}

type agentJSON struct {
	_ struct{} `json:"-" additionalProperties:"true"`
	AgentSummary
	WorkOnCurrentBranch   bool                         `json:"workOnCurrentBranch"`
	AutoCreatePR          bool                         `json:"autoCreatePR"`
	DraftPR               bool                         `json:"draftPR,omitempty" doc:"an addition to the API"`
	SkipReviewerRequest   bool                         `json:"skipReviewerRequest,omitempty"`
	OpenAsCursorGithubApp bool                         `json:"openAsCursorGithubApp,omitempty" doc:"an addition to the API"`
	Model                 string                       `json:"model,omitempty" doc:"an id of GET /v1/models; absent is the default; an addition to the API"`
	ModelParams           []modelchoice.ModelParamJSON `json:"modelParams,omitempty" nullable:"false" doc:"of the model, as requested; an addition to the API"`
	Hibernation           string                       `json:"hibernation,omitempty" doc:"of a hibernated machine: live, with its processes, or disk, without them"`
	ForkedFrom            string                       `json:"forkedFrom,omitempty" doc:"the agent that this one was forked from"`
	RunMode               string                       `json:"runMode,omitempty" enum:"allowlist,auto-review,run-everything" doc:"what it may do without asking"`
	Approvals             []approvals.ApprovalJSON     `json:"approvals,omitempty" nullable:"false" doc:"its pending requests"`
	CursorIgnore          []string                     `json:"cursorIgnore,omitempty" nullable:"false" doc:"what the project's .cursorignore hides from it"`
	CustomSubagents       []customSubagentJSON         `json:"customSubagents,omitempty" nullable:"false"`
	Ports                 []portJSON                   `json:"ports,omitempty" nullable:"false" doc:"ports that its environment.json names, at the commit that it started from; an addition to the API"`
}

type portJSON struct {
	_    struct{} `json:"-" additionalProperties:"true"`
	Port int      `json:"port" minimum:"1" maximum:"65535"`
	Name string   `json:"name,omitempty" doc:"its name in the environment"`
}

type listAgentsResponseJSON struct {
	_          struct{}       `json:"-" additionalProperties:"true"`
	Items      []AgentSummary `json:"items" nullable:"false"`
	NextCursor string         `json:"nextCursor,omitempty" minLength:"1"`
}

func (s *API) listAgents(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	q := r.URL.Query()
	find, err := agentQuery(q, who, time.Now())
	if err != nil {
		return err
	}
	limit, err := pageOfAgents(q, &find)
	if err != nil {
		return err
	}
	agents, err := s.Agents.ListAgents(r.Context(), find)
	if err != nil {
		return fmt.Errorf("list agents: %w", err)
	}
	out := listAgentsResponseJSON{Items: []AgentSummary{}}
	agents, out.NextCursor = cutAgents(find, agents, limit)
	settings, err := store.Settings(r.Context(), s.Rules)
	if err != nil {
		return err
	}
	for _, a := range agents {
		one := s.summary(a)
		then := settings.At(a.CreatedAt)
		if err := s.addRun(r.Context(), &one, a, then.HideSummary); err != nil {
			return err
		}
		if then.HideSummary {
			one.hide()
		}
		one.DeletedAt = DeletedAt(then, a)
		out.Items = append(out.Items, one)
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

// hide removes the fields that lists leave out while the team's settings hide
// summaries.
func (a *AgentSummary) hide() {
	a.Hidden, a.Doing = true, ""
	for i := range a.PullRequests {
		a.PullRequests[i].Title = ""
	}
}

func (s *API) getAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	out := s.whole(a)
	if err := s.readSubagents(r.Context(), &out); err != nil {
		return err
	}
	if err := s.addRun(r.Context(), &out.AgentSummary, a, false); err != nil {
		return err
	}
	settings, err := store.Settings(r.Context(), s.Rules)
	if err != nil {
		return err
	}
	out.DeletedAt = DeletedAt(settings.At(a.CreatedAt), a)
	mode, err := s.approvals.Review.ModeOf(r.Context(), a)
	if err != nil {
		return err
	}
	out.RunMode = string(mode)
	out.CursorIgnore, out.Ports = s.hidden(r.Context(), a), s.ports(r.Context(), a)
	return rest.WriteJSON(w, http.StatusOK, out)
}

// fileWithin is the timeout for reading a project file that a reply includes.
const fileWithin = 2 * time.Second

// hidden returns the patterns of the project's .cursorignore. If the file
// cannot be read, the agent is shown without the patterns.
func (s *API) hidden(ctx context.Context, a agent.Agent) []string {
	ctx, cancel := context.WithTimeout(ctx, fileWithin)
	defer cancel()
	text, err := s.ProjectFile(ctx, a, ".cursorignore")
	if err != nil {
		s.Logger.WarnContext(ctx, "cannot read a .cursorignore", "agent", a.ID, "error", err)
		return nil
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			out = append(out, strings.ToValidUTF8(line, "\uFFFD"))
		}
	}
	return out
}

// ports returns the ports that the agent's environment names. If the
// environment cannot be read, the agent is shown without ports.
func (s *API) ports(ctx context.Context, a agent.Agent) (out []portJSON) {
	ctx, cancel := context.WithTimeout(ctx, fileWithin)
	defer cancel()
	named, err := s.Ports(ctx, a)
	if err != nil {
		s.Logger.WarnContext(ctx, "cannot read the ports of an environment", "agent", a.ID, "error", err)
	}
	for _, p := range named {
		out = append(out, portJSON{Port: p.Port, Name: p.Name})
	}
	return out
}

func (s *API) deleteAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := s.remove(r.Context(), a.ID); err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: a.ID})
}

// remove deletes an agent and everything stored for it. It is idempotent: if it
// fails, the caller can repeat it.
func (s *API) remove(ctx context.Context, id string) error {
	if err := s.unqueueAll(ctx, id); err != nil {
		return err
	}
	if err := s.removeMachine(ctx, id); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if s.Artifacts != nil {
		if err := s.Artifacts.Remove(ctx, id); err != nil {
			return err
		}
	}
	if err := s.Agents.DeleteAgent(ctx, id); err != nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	return s.Work.Forget(ctx, id)
}

func (s *API) archiveAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	return s.setArchived(w, r, who, true)
}

func (s *API) unarchiveAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	return s.setArchived(w, r, who, false)
}

// setArchived archives or unarchives an agent. An archived agent has no active
// run and no machine. setArchived journals a request to cancel its run, so that
// a crash before the scheduler reads the request does not lose it.
func (s *API) setArchived(w http.ResponseWriter, r *http.Request, who account.APIKey, archived bool) error {
	ctx, id := r.Context(), r.PathValue("id")
	err := s.Decide(ctx, who, id, func(a agent.Agent) ([]agent.Event, error) {
		if a.Archived == archived {
			return nil, nil
		}
		events := []agent.Event{{Body: &agent.Archived{Archived: archived}}}
		if a.Archived = archived; !archived {
			switch err := s.free(ctx, a); {
			case fault.Is(err, fault.KindConflict):
				return events, nil // the last run is about to end and will start the queued prompt
			case err != nil:
				return nil, err
			}
			next, err := store.Next(ctx, s.Journal, a)
			return append(events, next...), err
		}
		if a.LatestRunID != "" {
			run, err := s.Agents.Run(ctx, a.ID, a.LatestRunID)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", a.LatestRunID, err)
			}
			if !run.Status.Ended() {
				events = append([]agent.Event{{RunID: run.ID, Body: &agent.CancelAsked{Reason: "the agent was archived"}}}, events...)
			}
		}
		return events, nil
	})
	if err != nil {
		return err
	}
	s.Work.Wake(id)
	if archived {
		if err := s.removeMachine(ctx, id); err != nil {
			return err
		}
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: id})
}

// removeMachine continues after its client has disconnected: an interrupted
// removal would leave a machine that no list shows.
func (s *API) removeMachine(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rest.ReplyWithin)
	defer cancel()
	if err := s.Work.Remove(ctx, id); err != nil {
		return fmt.Errorf("remove the machine of %s: %w", id, err)
	}
	return nil
}

func (s *API) summary(a agent.Agent) AgentSummary {
	out := AgentSummary{
		ID: a.ID, Name: a.Name, Status: "ACTIVE", Env: agentEnvJSON{Type: a.Env.Type, Preset: string(a.Env.Preset), Image: a.Env.Image},
		URL:       strings.TrimSuffix(s.PublicURL(), "/") + "/agents/" + a.ID,
		CreatedAt: rest.Stamp(a.CreatedAt), UpdatedAt: rest.Stamp(a.UpdatedAt), LatestRunID: a.LatestRunID, UserID: a.UserID, Waiting: len(a.Approvals),
		Paused: a.Paused, Machine: string(a.Machine), PullRequests: pulls.PullRequestsOf(a.PullRequests),
	}
	if a.Machine == agent.MachineSuspended {
		out.Machine = string(agent.MachineHibernates)
	}
	if a.Archived {
		out.Status = "ARCHIVED"
	}
	if len(a.Approvals) > 0 {
		since := rest.Stamp(a.Approvals[0].AskedAt)
		out.WaitsSince = &since
	}
	if a.Env.Name != "" {
		out.Env.Name = &a.Env.Name
	}
	for _, r := range a.Repos {
		c := repoConfigJSON{URL: r.URL}
		if r.StartingRef != "" {
			c.StartingRef = &r.StartingRef
		}
		if r.PullRequest != "" {
			c.PRURL = &r.PullRequest
		}
		out.Repos = append(out.Repos, c)
	}
	return out
}

func (s *API) whole(a agent.Agent) agentJSON {
	out := agentJSON{AgentSummary: s.summary(a), AutoCreatePR: a.Pull.Auto, DraftPR: a.Pull.Draft, SkipReviewerRequest: a.Pull.SkipReviewers, OpenAsCursorGithubApp: a.Pull.AsApp, WorkOnCurrentBranch: a.WorkOnCurrentBranch, ForkedFrom: a.ForkedFrom, RunMode: a.RunMode}
	out.Model, out.ModelParams = modelchoice.ModelRefOf(a.Model)
	switch a.Machine {
	case agent.MachineHibernates:
		out.Hibernation = "disk"
	case agent.MachineSuspended:
		out.Hibernation = "live"
	}
	if len(a.Approvals) > 0 {
		out.Approvals = approvals.Of(a)
	}
	return out
}
