package agents

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/mcpservers"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/policy/permit"
	"aloft/internal/secret"
)

type createAgentRequestJSON struct {
	_                     struct{}                     `json:"-" additionalProperties:"true"`
	Prompt                *promptJSON                  `json:"prompt" nullable:"false"`
	Model                 *modelchoice.ModelRefJSON    `json:"model,omitempty"`
	Name                  *string                      `json:"name,omitempty" minLength:"1" maxLength:"100"`
	AgentID               *string                      `json:"agentId,omitempty" minLength:"1" pattern:"^bc-[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"`
	Env                   *agentEnvJSON                `json:"env,omitempty"`
	Repos                 []repoConfigJSON             `json:"repos,omitempty" maxItems:"20" nullable:"false"`
	WorkOnCurrentBranch   bool                         `json:"workOnCurrentBranch,omitempty" default:"false"`
	BranchName            *string                      `json:"branchName,omitempty" minLength:"1" doc:"branch to create; default derived from the prompt; an addition to the API"`
	AutoCreatePR          bool                         `json:"autoCreatePR,omitempty" default:"false" doc:"open a pull request at the end of each run that has pushed commits, or update the existing one"`
	DraftPR               bool                         `json:"draftPR,omitempty" default:"false" doc:"open the pull request as a draft; an addition to the API"`
	SkipReviewerRequest   bool                         `json:"skipReviewerRequest,omitempty" default:"false" doc:"do not request a review; by default the agent's creator is asked, if git.credentials[].reviewers in the server's configuration maps them to a login"`
	OpenAsCursorGithubApp bool                         `json:"openAsCursorGithubApp,omitempty" default:"false" doc:"open its pull requests as the GitHub App of the server's configuration, which must have one for each repository; else by the credential that git has; an addition to the API"`
	Class                 string                       `json:"class,omitempty" enum:",strong" doc:"isolation class of the machine; an addition to the API"`
	RunMode               string                       `json:"runMode,omitempty" enum:",allowlist,auto-review,run-everything" doc:"what it may do without asking; the strictest of this, the team's and the server's mode applies; an addition to the API"`
	Webhook               *webhookJSON                 `json:"webhook,omitempty" doc:"an addition to the API"`
	EnvVars               map[string]string            `json:"envVars,omitempty" maxProperties:"50" doc:"for the machine; stored encrypted, and deleted with the agent"`
	MCPServers            []mcpservers.MCPServerInJSON `json:"mcpServers,omitempty" maxItems:"50" nullable:"false" doc:"in addition to the team's, yours and the repository's"`
	CustomSubagents       []customSubagentJSON         `json:"customSubagents,omitempty" maxItems:"20" nullable:"false" doc:"in addition to Aloft's own and the repository's; a repository's subagent with the same name is ignored"`
	Mode                  *string                      `json:"mode,omitempty" enum:"agent,plan" default:"agent" doc:"plan: the agent changes nothing until you approve its plan"`
	Limits                *modelchoice.AmountJSON      `json:"limits,omitempty" doc:"of each run: at the first limit reached the run ends as EXPIRED, with its work pushed; at most what the team and the server allow; an addition to the API"`
	Checks                []string                     `json:"checks,omitempty" maxItems:"20" nullable:"false" doc:"shell commands that must pass on the commit that a run pushes, in addition to the environment's; if one fails, the agent goes on; an addition to the API"`
	Review                *reviewJSON                  `json:"review,omitempty" doc:"have the agent review a change and report findings; it commits and pushes nothing, and its machine gets no secrets; an addition to the API"`
	Goal                  *string                      `json:"goal,omitempty" maxLength:"4096" doc:"what must be achieved, in words; at the end a second model judges by the task, the diff and the checks whether it is, and if not, the agent goes on; an addition to the API"`
}

type createAgentResponseJSON struct {
	_     struct{}  `json:"-" additionalProperties:"true"`
	Agent agentJSON `json:"agent"`
	Run   runJSON   `json:"run"`
}

// createAgent journals an agent with its first run. The reply is folded from
// the journaled events, so that a repeated request with the same
// Idempotency-Key gets an identical reply.
func (s *API) createAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	key, err := rest.IdempotencyKey(r)
	if err != nil {
		return err
	}
	var in createAgentRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	id := agent.NewID()
	if in.AgentID != nil {
		if id = *in.AgentID; !agent.ValidID(id) {
			return fault.Invalid("must be bc- and a UUID").At("agentId")
		}
		if rest.IsReserved(id) {
			return fault.Invalid("is a UUID of version %d, which only this server gives out", rest.Reserved).At("agentId").Hint("use a random UUID (version 4)")
		}
	} else if key != "" {
		if id, err = s.IDOfKey(r.Context(), who, "agent", key); err != nil {
			return err
		}
	}
	events, runID, err := s.startAgent(r.Context(), who, &in, id, key, rest.TraceOf(r))
	if err != nil {
		return err
	}
	out := agent.Agent{ID: id}
	run := agent.Run{AgentID: id}
	for _, e := range events {
		out.Apply(e)
		if e.RunID == runID {
			run.Apply(e)
		}
	}
	shown := s.whole(out)
	addSubagents(&shown, events)
	return rest.WriteJSON(w, http.StatusCreated, createAgentResponseJSON{Agent: shown, Run: runOf(run, Branches{})})
}

// startAgent validates the request, journals the agent under the id, and wakes
// the scheduler. It returns the first events of the agent, which are those of an
// earlier attempt if the key is not "" and was used for one.
func (s *API) startAgent(ctx context.Context, who account.APIKey, in *createAgentRequestJSON, id, key, trace string) (events []agent.Event, runID string, err error) {
	prompt, err := in.Prompt.message()
	if err != nil {
		return nil, "", err
	}
	chosen, err := s.chooseEnvironment(ctx, who, in)
	if err != nil {
		return nil, "", err
	}
	baseBranch, err := s.settled(ctx, in)
	if err != nil {
		return nil, "", err
	}
	mode, err := modeOf(in.Mode)
	if err != nil {
		return nil, "", err
	}
	checks, err := checksOf(in.Checks)
	if err != nil {
		return nil, "", err
	}
	if err := goalOf(in.Goal); err != nil {
		return nil, "", err
	}
	created, err := s.created(ctx, in, prompt.PlainText(), who)
	if err != nil {
		return nil, "", err
	}
	startAt(created.Repos, baseBranch)
	if chosen != nil {
		if err := use(*chosen, created); err != nil {
			return nil, "", err
		}
	}
	limit, err := s.models.LimitFor(ctx, in.Limits, agent.Agent{Options: agent.Options{Model: created.Model}, CreatedAt: time.Now()})
	if err != nil {
		return nil, "", err
	}
	if err := s.MayReach(ctx, who, created.Repos); err != nil {
		return nil, "", err
	}
	if in.BranchName == nil && created.Branch != "" {
		if created.Branch, err = s.newBranch(ctx, id, created.Branch); err != nil {
			return nil, "", err
		}
	}
	runID = agent.NewRunID()
	if key != "" {
		runID = "run-" + rest.Named(who, id, key)
	}
	sealed, err := s.sealEnvVars(ctx, id, in.EnvVars)
	if err != nil {
		return nil, "", err
	}
	hook, err := s.sealWebhook(ctx, id, in.Webhook)
	if err != nil {
		return nil, "", err
	}
	sealed = append(sealed, hook...)
	servers, given, err := s.mcpservers.Encode(in.MCPServers)
	if err != nil {
		return nil, "", err
	}
	seal, err := s.mcpservers.Seal(ctx, id, runID, servers, given)
	if err != nil {
		return nil, "", err
	}
	sealed = append(sealed, seal...)
	fetched, err := s.fetchImages(ctx, in.Prompt, prompt)
	if err == nil {
		err = s.MayAdd(ctx, created.UserID, rest.Quotas{Agents: 1, Running: 1})
	}
	if err == nil {
		var head int64
		events, err = s.Journal.Append(ctx, store.Append{AgentID: id, IfHead: &head, Secrets: sealed, Events: []agent.Event{
			{Body: created},
			{RunID: runID, Body: &agent.RunCreated{Prompt: fetched, Trace: trace, Mode: mode, MCP: given, Limit: limit, Checks: checks, Goal: in.Goal}},
		}})
		if errors.Is(err, store.ErrExists) {
			taken := fault.Conflict("agent %s exists already", id).Named("agent_id_conflict").At("agentId")
			events, err = s.Repeated(ctx, who, id, runID, key, prompt, taken)
		}
	} else { // an image URL may no longer work since the first request, or a quota may be reached
		events, err = s.Repeated(ctx, who, id, runID, key, prompt, err)
	}
	if err != nil {
		return nil, "", err
	}
	s.Work.Wake(id)
	return events, runID, nil
}

// created validates the whole request except its prompt.
func (s *API) created(ctx context.Context, in *createAgentRequestJSON, prompt string, who account.APIKey) (*agent.Created, error) {
	if err := notBuiltYet(in); err != nil {
		return nil, err
	}
	model, err := s.models.Choose(ctx, in.Model)
	if err != nil {
		return nil, err
	}
	repos, err := s.repos(in.Repos)
	if err != nil {
		return nil, err
	}
	env, err := in.Env.env()
	if err != nil {
		return nil, err
	}
	c := &agent.Created{
		Name: agent.NameFrom(prompt), UserID: who.UserID, Env: env,
		Repos: repos, Model: model, WorkOnCurrentBranch: in.WorkOnCurrentBranch,
	}
	if in.Webhook != nil {
		c.WebhookEvents = in.Webhook.Events
	}
	if c.Class = in.Class; c.Class != "" && c.Class != "strong" {
		return nil, fault.Invalid("is %q; must be strong, or absent for the server's default", c.Class).At("class")
	}
	if c.RunMode = in.RunMode; c.RunMode != "" {
		if _, err := permit.ParseMode(c.RunMode); err != nil {
			return nil, fault.Invalid("%v", err).At("runMode")
		}
	}
	if in.Name != nil {
		if n := utf8.RuneCountInString(*in.Name); n < 1 || n > 100 {
			return nil, fault.Invalid("has %d characters; must have 1 to 100", n).At("name")
		}
		c.Name = *in.Name
	}
	if env.Preset != "" && len(repos) == 0 {
		return nil, fault.Invalid("is required: an environment belongs to a repository").Named(rest.CodeNoRepository).At("repos")
	}
	if c.Review, err = reviewOf(in, repos); err != nil {
		return nil, err
	}
	if c.Review != nil {
		c.Env.Preset = agent.Reviewer
	}
	if c.Pull, err = s.pullRequestOptions(in, repos); err != nil {
		return nil, err
	}
	if c.Subagents, err = s.subagents(ctx, in.CustomSubagents); err != nil {
		return nil, err
	}
	c.Branch, err = branch(in, cmp.Or(strings.TrimSpace(prompt), c.Name))
	return c, err
}

// branch returns the name of the branch to create, or "" to stay on the
// starting ref.
func branch(in *createAgentRequestJSON, prompt string) (string, error) {
	switch name := in.BranchName; {
	case name == nil && in.WorkOnCurrentBranch:
		return "", nil
	case name == nil:
		return agent.NewBranch(prompt), nil
	case in.WorkOnCurrentBranch:
		return "", fault.Invalid("cannot be combined with workOnCurrentBranch").Hint("omit one of the two").At("branchName")
	case !rest.ValidRef(*name), *name == "HEAD", strings.HasPrefix(*name, "refs/"):
		return "", fault.Invalid("%s is not a valid branch name", rest.Quoted(*name)).Named("invalid_branch_name").At("branchName")
	default:
		return *name, nil
	}
}

// notBuiltYet rejects requests for features that this version lacks.
func notBuiltYet(in *createAgentRequestJSON) error {
	if in.Env != nil {
		switch in.Env.Type {
		case "cloud":
		case "pool", "machine":
			return rest.NotImplemented("env.type", "environments of type "+in.Env.Type)
		default:
			return fault.Invalid("must be cloud").At("env.type")
		}
	}
	return nil
}

// modeOf returns the mode that a request names, or "" if it names none.
func modeOf(mode *string) (string, error) {
	switch {
	case mode == nil:
		return "", nil
	case *mode == agent.ModeAgent || *mode == agent.ModePlan:
		return *mode, nil
	}
	return "", fault.Invalid("must be agent or plan").At("mode")
}

// settled gives a request without repositories the team's default repository.
// It returns the team's base branch, or "" if none is set.
func (s *API) settled(ctx context.Context, in *createAgentRequestJSON) (baseBranch string, err error) {
	h, err := store.Settings(ctx, s.Rules)
	if err != nil {
		return "", err
	}
	now := h.Now()
	if in.Repos == nil && now.DefaultRepository != "" {
		in.Repos = []repoConfigJSON{{URL: now.DefaultRepository}}
	}
	return now.BaseBranch, nil
}

// startAt sets the team's base branch as the starting ref of each repository
// that the request names without a ref or a pull request.
func startAt(repos []agent.Repo, baseBranch string) {
	if baseBranch == "" {
		return
	}
	for i := range repos {
		if r := &repos[i]; r.StartingRef == "" && r.PullRequest == "" {
			r.StartingRef, r.TeamBase = baseBranch, true
		}
	}
}

// sealEnvVars encrypts the envVars of a new agent.
func (s *API) sealEnvVars(ctx context.Context, agentID string, vars map[string]string) ([]secret.Sealed, error) {
	if len(vars) == 0 {
		return nil, nil
	}
	if err := secret.CheckEnvVars(vars); err != nil {
		return nil, err
	}
	return s.Secrets.SealEnvVars(ctx, agentID, vars)
}

// maxImageName is the maximum length of an image's name, in bytes.
const maxImageName = 500

// env validates where the agent's machine comes from.
func (in *agentEnvJSON) env() (agent.Env, error) {
	e := agent.Env{Type: "cloud"}
	if in == nil {
		return e, nil
	}
	if in.Name != nil {
		if e.Name = *in.Name; e.Name == "" || len(e.Name) > 255 {
			return e, fault.Invalid("must have 1 to 255 bytes").At("env.name")
		}
	}
	switch e.Preset = agent.Preset(in.Preset); e.Preset {
	case "", agent.SetUp, agent.VMSetupHelper:
	default:
		return e, fault.Invalid("must be setup or vmSetupHelper, or absent").At("env.preset")
	}
	if e.Image = in.Image; e.Image != "" && (e.Preset != agent.SetUp || len(e.Image) > maxImageName) {
		return e, fault.Invalid("an image requires env.preset setup, and must be at most %d bytes", maxImageName).At("env.image").
			Hint("otherwise set the image in environment.json")
	}
	return e, nil
}
