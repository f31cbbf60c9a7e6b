package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/mcpservers"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

type runGitBranchJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	RepoURL string   `json:"repoUrl" minLength:"1" doc:"without its scheme"`
	Branch  string   `json:"branch,omitempty" minLength:"1"`
	PRURL   string   `json:"prUrl,omitempty" format:"uri" doc:"URL of its pull request, if any"`
}

// RunGitJSON lists the branches of an agent.
type RunGitJSON struct {
	_        struct{}           `json:"-" additionalProperties:"true"`
	Branches []runGitBranchJSON `json:"branches" nullable:"false"`
}

type runJSON struct {
	_          struct{}                `json:"-" additionalProperties:"true"`
	ID         string                  `json:"id"`
	AgentID    string                  `json:"agentId"`
	Status     string                  `json:"status" enum:"CREATING,RUNNING,FINISHED,ERROR,CANCELLED,EXPIRED"`
	CreatedAt  time.Time               `json:"createdAt"`
	UpdatedAt  time.Time               `json:"updatedAt"`
	DurationMS *int64                  `json:"durationMs,omitempty" minimum:"0" doc:"if the run has ended"`
	Result     string                  `json:"result,omitempty" minLength:"1" doc:"the agent's last message"`
	Git        *RunGitJSON             `json:"git,omitempty" doc:"the agent's branches"`
	Error      *rest.ErrorInnerJSON    `json:"error,omitempty" doc:"why it ended as ERROR or EXPIRED"`
	Limits     *modelchoice.AmountJSON `json:"limits,omitempty" doc:"limits at which the run ends as EXPIRED, with its work pushed; absent if it has none or has not started; an addition to the API"`
	Used       *modelchoice.AmountJSON `json:"used,omitempty" doc:"usage of the limited resources; an addition to the API"`
	Outcome    string                  `json:"outcome,omitempty" enum:"done,partly,blocked,gave_up,limit" doc:"what the run achieved, judged by its checks and by how it ended; absent until it ends, if it was cancelled, and for runs of older versions; an addition to the API"`
	Evidence   *EvidenceJSON           `json:"evidence,omitempty" doc:"what outcome is based on, if the run had checks or a goal; an addition to the API"`
}

// FollowUp holds the fields that a follow-up request may set. It is exported so
// that huma describes them as fields of the structs that embed it.
type FollowUp struct {
	_       struct{}                  `json:"-" additionalProperties:"true"`
	Prompt  *promptJSON               `json:"prompt" nullable:"false"`
	Mode    *string                   `json:"mode,omitempty" enum:"agent,plan" doc:"plan: the agent changes nothing until you approve its plan; default unchanged"`
	Model   *modelchoice.ModelRefJSON `json:"model,omitempty" doc:"model from now on; default unchanged; an addition to the API"`
	Limits  *modelchoice.AmountJSON   `json:"limits,omitempty" doc:"limits of each run from now on; default unchanged; an addition to the API"`
	Checks  []string                  `json:"checks,omitempty" maxItems:"20" nullable:"false" doc:"as in createAgent, from now on; default unchanged; an addition to the API"`
	Goal    *string                   `json:"goal,omitempty" maxLength:"4096" doc:"as in createAgent, from now on; empty for none; default unchanged; an addition to the API"`
	EnvVars map[string]string         `json:"envVars,omitempty" maxProperties:"0" doc:"not accepted: variables are set when the agent is created"`
}

type createRunRequestJSON struct {
	_ struct{} `json:"-" additionalProperties:"true"`
	FollowUp
	MCPServers []mcpservers.MCPServerInJSON `json:"mcpServers,omitempty" maxItems:"50" nullable:"false" doc:"replaces the previous list; default unchanged"`
}

// followUp is a validated [FollowUp].
type followUp struct {
	key         string               // idempotency key, or ""
	prompt      conversation.Message // as the client sent it
	run         agent.RunCreated     // includes the images that the prompt names by URL
	unreachable error                // why an image could not be fetched, or nil
}

// followUp decodes a request into in, which embeds a [FollowUp], and validates
// it.
func (s *API) followUp(w http.ResponseWriter, r *http.Request, who account.APIKey, in any, more *FollowUp) (out followUp, err error) {
	ctx := r.Context()
	if out.key, err = rest.IdempotencyKey(r); err != nil {
		return out, err
	}
	a, err := s.Agent(ctx, who, r.PathValue("id"))
	if err != nil {
		return out, err // checked before a body of up to 110 MiB is read
	}
	if err := s.MayReach(ctx, who, a.Repos); err != nil {
		return out, err
	}
	if err := rest.ReadBody(w, r, in); err != nil {
		return out, err
	}
	out.run.Trace = rest.TraceOf(r)
	return out, s.checkFollowUp(ctx, a, more, &out)
}

// checkFollowUp validates a follow-up to the agent, and completes out.
func (s *API) checkFollowUp(ctx context.Context, a agent.Agent, more *FollowUp, out *followUp) (err error) {
	prompt, err := more.Prompt.prompt()
	if err != nil {
		return err
	}
	if out.prompt, err = prompt.Message(); err != nil {
		return err
	}
	if len(more.EnvVars) > 0 {
		return fault.Invalid("can only be set when the agent is created").Hint("set a secret, or create a new agent with them").At("envVars")
	}
	if out.run.Mode, err = agents.CheckMode(more.Mode); err != nil {
		return err
	}
	if more.Model != nil {
		model, err := s.models.Choose(ctx, more.Model)
		if err != nil {
			return err
		}
		a.Model, out.run.Model = model, cmp.Or(model, agent.DefaultModel)
	}
	if out.run.Limit, err = s.models.LimitFor(ctx, more.Limits, a); err != nil {
		return err
	}
	if out.run.Checks, err = agents.CheckCommands(more.Checks); err != nil {
		return err
	}
	if err := agents.CheckGoal(more.Goal); err != nil {
		return err
	}
	out.run.Goal = more.Goal
	out.run.Prompt, out.unreachable = prompt.Fetch(ctx, s.Outbound)
	return nil
}

type createRunResponseJSON struct {
	_   struct{} `json:"-" additionalProperties:"true"`
	Run runJSON  `json:"run"`
}

type listRunsResponseJSON struct {
	_          struct{}  `json:"-" additionalProperties:"true"`
	Items      []runJSON `json:"items" nullable:"false"`
	NextCursor string    `json:"nextCursor,omitempty" minLength:"1"`
}

func (s *API) createRun(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	ctx, id := r.Context(), r.PathValue("id")
	var in createRunRequestJSON
	more, err := s.followUp(w, r, who, &in, &in.FollowUp)
	if err != nil {
		return err
	}
	servers, given, err := s.mcpservers.Encode(in.MCPServers)
	if err != nil {
		return err
	}
	more.run.MCP = given
	first := []agent.Event{{RunID: agent.NewRunID(), Body: &more.run}}
	if more.key != "" {
		first[0].RunID = "run-" + rest.Named(who, id, more.key)
	}
	err = s.Decide(ctx, who, id, func(a agent.Agent) ([]agent.Event, error) {
		if more.key != "" {
			made, err := s.firstOf(ctx, id, first[0].RunID)
			if err == nil {
				err = agents.SamePrompt(made, more.prompt)
				first[0] = made
				return nil, err
			}
			if !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
		}
		if more.unreachable != nil {
			return nil, more.unreachable
		}
		if err := s.free(ctx, a); err != nil {
			return first, err
		}
		if err := s.MayAdd(ctx, a.UserID, agents.Quotas{Running: 1}); err != nil || !given {
			return first, err
		}
		return first, s.mcpservers.MCP.KeepForAgent(ctx, id, first[0].RunID, servers)
	})
	if err != nil {
		return err
	}
	s.Work.Wake(id)
	run := agent.Run{AgentID: id}
	run.Apply(first[0])
	return rest.WriteJSON(w, http.StatusCreated, createRunResponseJSON{Run: runOf(run, Branches{})})
}

// free returns nil if the agent can take a prompt.
func (s *API) free(ctx context.Context, a agent.Agent) error {
	if a.Archived {
		return fault.Conflict("the agent is archived").Named("agent_archived").Hint("unarchive it first")
	}
	run, err := s.Agents.Run(ctx, a.ID, a.LatestRunID)
	if err != nil {
		return fmt.Errorf("read %s: %w", a.LatestRunID, err)
	}
	if !run.Status.Ended() {
		return fault.Conflict("the agent is working on %s", run.ID).Named(agents.CodeBusy).Hint("wait until it ends, queue the prompt, or cancel the run")
	}
	return nil
}

// firstOf returns the event that created a run. If there is no such run, the
// error wraps [store.ErrNotFound].
func (s *API) firstOf(ctx context.Context, agentID, runID string) (agent.Event, error) {
	run, err := s.Agents.Run(ctx, agentID, runID)
	if err != nil {
		return agent.Event{}, err
	}
	events, err := s.Journal.Read(ctx, agentID, run.FirstSeq-1, 1)
	if err != nil {
		return agent.Event{}, err
	}
	if len(events) == 0 {
		return agent.Event{}, fmt.Errorf("first event of %s: %w", runID, store.ErrNotFound)
	}
	return events[0], nil
}

func (s *API) listRuns(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	p, limit, err := rest.Page(r.URL.Query(), rest.RunList)
	if err != nil {
		return err
	}
	runs, err := s.Agents.ListRuns(r.Context(), a.ID, p)
	if err != nil {
		return fmt.Errorf("list the runs of %s: %w", a.ID, err)
	}
	all, err := s.Branches(r.Context(), a)
	if err != nil {
		return err
	}
	out := listRunsResponseJSON{Items: []runJSON{}}
	runs, out.NextCursor = rest.Cut(rest.RunList, runs, limit, func(e agent.Run) (time.Time, string) { return e.CreatedAt, e.ID })
	for _, run := range runs {
		out.Items = append(out.Items, runOf(run, all))
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *API) getRun(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, run, err := s.RunAndAgent(r, who)
	if err != nil {
		return err
	}
	all, err := s.Branches(r.Context(), a)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, runOf(run, all))
}

// cancelRun journals a cancellation request, which the scheduler executes.
func (s *API) cancelRun(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if _, err := s.run(r, who); err != nil {
		return err
	}
	runID := r.PathValue("runId")
	if err := s.CancelRun(r.Context(), who, r.PathValue("id"), runID); err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, rest.IDResponseJSON{ID: runID})
}

// CancelRun journals a request to cancel a run on behalf of a user. If the run
// has ended, the fault is run_not_cancellable.
func (s *API) CancelRun(ctx context.Context, who account.APIKey, id, runID string) error {
	err := s.Decide(ctx, who, id, func(a agent.Agent) ([]agent.Event, error) {
		run, err := s.Agents.Run(ctx, a.ID, runID) // read after the agent: if the run ends in between, the head has moved
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", runID, err)
		}
		if run.Status.Ended() {
			return nil, fault.Conflict("the run has ended: %s", run.Status).Named("run_not_cancellable")
		}
		return []agent.Event{{RunID: runID, Body: &agent.CancelAsked{Reason: "requested by its user"}}}, nil
	})
	if err == nil {
		s.Work.Wake(id)
	}
	return err
}

// run returns the run in the request's path, if its agent is the caller's.
func (s *API) run(r *http.Request, who account.APIKey) (agent.Run, error) {
	_, run, err := s.RunAndAgent(r, who)
	return run, err
}

// RunAndAgent returns the run and the agent in the request's path, if the agent is
// the caller's.
func (s *API) RunAndAgent(r *http.Request, who account.APIKey) (agent.Agent, agent.Run, error) {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return a, agent.Run{}, err
	}
	run, err := s.Run(r.Context(), a.ID, r.PathValue("runId"))
	return a, run, err
}

// Run returns a run of the agent. If there is no such run, the error is a fault.
func (s *API) Run(ctx context.Context, agentID, runID string) (agent.Run, error) {
	run, err := s.Agents.Run(ctx, agentID, runID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return agent.Run{}, fault.NotFound("the agent has no run %s", fault.Quoted(runID)).Named("run_not_found")
	case err != nil:
		return agent.Run{}, fmt.Errorf("read a run of %s: %w", agentID, err)
	}
	return run, nil
}

// Branches returns the branches that the agent has pushed. All runs of an agent
// work on the same branch, so Branches reads only the newest run that has
// pushed anything.
func (s *API) Branches(ctx context.Context, a agent.Agent) (Branches, error) {
	p := store.Page{Limit: rest.MaxLimit}
	for {
		runs, err := s.Agents.ListRuns(ctx, a.ID, p)
		if err != nil {
			return Branches{}, fmt.Errorf("list the runs of %s: %w", a.ID, err)
		}
		for _, run := range runs {
			if len(run.Branches) > 0 {
				return Branches{run.Branches, a.PullRequests}, nil
			}
		}
		if len(runs) < p.Limit {
			return Branches{}, nil
		}
		last := runs[len(runs)-1]
		p.BeforeTime, p.BeforeID = last.CreatedAt, last.ID
	}
}

// Branches are an agent's branches and their pull requests.
type Branches struct {
	Pushed []agent.Branch
	Pulls  []agent.PullRequest
}

func runOf(r agent.Run, all Branches) runJSON {
	out := runJSON{
		ID: r.ID, AgentID: r.AgentID, Status: string(r.Status), Result: r.Result,
		CreatedAt: rest.Stamp(r.CreatedAt), UpdatedAt: rest.Stamp(r.UpdatedAt), Git: GitOf(all),
	}
	if r.Status.Ended() {
		ms := max(r.Duration(r.EndedAt).Milliseconds(), 0)
		out.DurationMS = &ms
	}
	if r.Failure != nil {
		out.Error = rest.FailureOf(r.Failure)
	}
	out.Limits, out.Used = modelchoice.LimitsOf(r)
	out.Outcome, out.Evidence = string(r.Outcome), EvidenceOf(r.Evidence)
	return out
}

// GitOf returns the branches in the API's form, or nil if there are none.
func GitOf(all Branches) *RunGitJSON {
	if len(all.Pushed) == 0 {
		return nil
	}
	git, of := &RunGitJSON{}, agent.Agent{PullRequests: all.Pulls}
	for _, b := range all.Pushed {
		one := runGitBranchJSON{RepoURL: rest.WithoutScheme(b.RepoURL), Branch: b.Branch}
		if p := of.PullRequest(b.RepoURL, b.Branch); p != nil {
			one.PRURL = p.URL
		}
		git.Branches = append(git.Branches, one)
	}
	return git
}
