package agents

import (
	"net/http"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/mcpservers"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
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

type repoConfigJSON struct {
	_           struct{} `json:"-" additionalProperties:"true"`
	URL         string   `json:"url,omitempty" minLength:"1" doc:"https, http or ssh URL without credentials; default that of prUrl"`
	StartingRef *string  `json:"startingRef,omitempty" minLength:"1" doc:"branch, tag or commit; default the default branch"`
	PRURL       *string  `json:"prUrl,omitempty" format:"uri" doc:"pull request to continue: the agent starts from its branch, and with workOnCurrentBranch pushes to it"`
}

type createAgentResponseJSON struct {
	_     struct{}  `json:"-" additionalProperties:"true"`
	Agent agentJSON `json:"agent"`
	Run   runJSON   `json:"run"`
}

// createAgent creates an agent with its first run. A repeated request with the same
// Idempotency-Key gets an identical reply, because the reply is folded from the
// journaled events.
func (s *API) createAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	key, err := rest.IdempotencyKey(r)
	if err != nil {
		return err
	}
	var in createAgentRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	id, err := s.newAgentID(r, who, in.AgentID, key)
	if err != nil {
		return err
	}
	q, err := in.request()
	if err != nil {
		return err
	}
	q.By, q.ID, q.RunID, q.Repeatable, q.Trace = who, id, newRunID(who, id, key), key != "", rest.TraceOf(r)
	made, err := s.Creator().Create(r.Context(), q)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, s.resultOf(made))
}

// resultOf returns a new agent in the API's form.
func (s *API) resultOf(made agents.Result) createAgentResponseJSON {
	out := createAgentResponseJSON{Agent: s.whole(made.Agent), Run: runOf(made.Run, Branches{})}
	addSubagents(&out.Agent, made.First)
	return out
}

// Creator returns the component that creates agents.
func (s *API) Creator() *agents.Creator {
	return &agents.Creator{
		Journal: s.Journal, Agents: s.Agents, Rules: s.Rules, Environments: s.Saved,
		Models: s.models.Choices(), Secrets: s.Secrets, MCP: s.mcpservers.MCP, PullRequests: s.pulls.Pulls, Outbound: s.Outbound, Forks: s.Forks,
		Quotas: s.Quotas, Inherit: s.Inherit, AllowFile: s.AllowFile, Wake: s.Work.Wake,
	}
}

// newAgentID returns the id of a new agent: the id in the request, an id
// derived from the caller's key, or a random id.
func (s *API) newAgentID(r *http.Request, who account.APIKey, named *string, key string) (string, error) {
	switch {
	case named == nil && key == "":
		return agent.NewID(), nil
	case named == nil:
		return s.IDOfKey(r.Context(), who, "agent", key)
	case !agent.ValidID(*named):
		return "", fault.Invalid("must be bc- and a UUID").At("agentId")
	case agents.IsReserved(*named):
		return "", fault.Invalid("is a UUID of version %d, which only this server generates", agents.Reserved).At("agentId").Hint("use a random UUID (version 4)")
	}
	return *named, nil
}

// newRunID returns the id of a new agent's first run.
func newRunID(who account.APIKey, agentID, key string) string {
	if key == "" {
		return agent.NewRunID()
	}
	return "run-" + rest.Named(who, agentID, key)
}

// request decodes the request.
func (in *createAgentRequestJSON) request() (q agents.Request, err error) {
	if q.Prompt, err = in.Prompt.prompt(); err != nil {
		return q, err
	}
	if q.Limits, err = in.Limits.Asked(); err != nil {
		return q, err
	}
	q.Name, q.Model, q.Mode, q.RunMode, q.Class = in.Name, in.Model.Ref(), in.Mode, in.RunMode, in.Class
	q.MCPServers, q.EnvVars, q.Subagents = mcpservers.Decode(in.MCPServers), in.EnvVars, decodeSubagents(in.CustomSubagents)
	q.WorkOnCurrentBranch, q.BranchName = in.WorkOnCurrentBranch, in.BranchName
	q.PullRequest = agents.PullRequestOptions{Auto: in.AutoCreatePR, Draft: in.DraftPR, SkipReviewers: in.SkipReviewerRequest, AsApp: in.OpenAsCursorGithubApp}
	q.Checks, q.Goal = in.Checks, in.Goal
	if in.Env != nil {
		q.Environment = &agents.Environment{Type: in.Env.Type, Name: in.Env.Name, Preset: in.Env.Preset, Image: in.Env.Image}
	}
	if in.Repos != nil {
		q.Repos = make([]agents.Repository, len(in.Repos)) // must not be nil, even if it is empty
		for i, r := range in.Repos {
			q.Repos[i] = agents.Repository{URL: r.URL, StartingRef: r.StartingRef, PullRequest: r.PRURL}
		}
	}
	if in.Webhook != nil {
		q.Webhook = &agents.Webhook{URL: in.Webhook.URL, Secret: in.Webhook.Secret, Events: in.Webhook.Events}
	}
	if in.Review != nil {
		q.Review = &agents.Review{Patch: in.Review.Patch, PullRequest: in.Review.PullRequest}
	}
	return q, nil
}
