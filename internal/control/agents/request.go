package agents

import (
	"aloft/internal/account"
	"aloft/internal/allowance"
	"aloft/internal/control/model"
	"aloft/internal/mcp"
)

// A Request describes an agent to create. A field that is nil, "" or false is
// absent from the request. The faults of [Creator.Create] name the fields as in
// the JSON of the API.
type Request struct {
	By    account.APIKey // who asks for the agent and will own it
	ID    string         // the agent's id
	RunID string         // the id of its first run
	// Repeatable means that ID and RunID derive from a key of the caller: if an
	// earlier attempt has created the agent, Create returns that agent.
	Repeatable bool
	Trace      string // the request's traceparent
	Event      string // [agent.RunCreated.By] if the server asks for the agent because of an event; "" for a person

	Prompt      Prompt
	Name        *string // default derived from the prompt
	Model       *model.Ref
	Mode        *string // agent or plan
	RunMode     string  // a mode of package permit
	Class       string  // isolation class of the machine: strong, or "" for the server's default
	Environment *Environment
	Subagents   []Subagent
	MCPServers  []mcp.Server // an empty list differs from nil
	EnvVars     map[string]string
	Webhook     *Webhook

	Repos               []Repository // nil for the repositories of the environment, or else the team's default
	WorkOnCurrentBranch bool
	BranchName          *string // name of the branch to create; default derived from the prompt
	PullRequest         PullRequestOptions

	Limits *allowance.Amount // limits of each run
	Checks []string          // an empty list differs from nil
	Goal   *string
	Review *Review
}

// A Review is the change that a new agent reviews. One of the two fields is
// set.
type Review struct {
	Patch       *string // a change, as git diff prints it
	PullRequest *string // URL of the pull request at which the findings are posted
}

// A Repository is a repository in a [Request].
type Repository struct {
	URL         string  // default that of PullRequest
	StartingRef *string // default the default branch
	PullRequest *string // URL of a pull request, from whose branch the agent starts
}

// An Environment says where a new agent's machine comes from.
type Environment struct {
	Type   string  // cloud; other types are not supported
	Name   *string // name of a saved environment
	Preset string  // setup or vmSetupHelper
	Image  string  // image for the preset setup
}

// PullRequestOptions says how a new agent opens pull requests.
type PullRequestOptions struct {
	Auto          bool // open a pull request at the end of each run that has pushed commits
	Draft         bool
	SkipReviewers bool
	AsApp         bool // open pull requests as the GitHub App of the server's configuration
}

// A Subagent is a custom subagent in a [Request].
type Subagent struct {
	Name, Description string
	Prompt            string     // its system prompt
	Model             *model.Ref // its ID may also be subagent.Inherit or subagent.Fast
}

// A Webhook receives the events of a new agent.
type Webhook struct {
	URL    string
	Secret *string  // signs the deliveries
	Events []string // default all
}
