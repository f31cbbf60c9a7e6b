package v0

import "time"

// CreateAgentRequest is the body of a request to create an agent.
type CreateAgentRequest struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Prompt  *Prompt  `json:"prompt" nullable:"false"`
	Model   *string  `json:"model,omitempty" minLength:"1" doc:"of GET /v0/models, or default"`
	Source  *Source  `json:"source" nullable:"false"`
	Target  *Target  `json:"target,omitempty"`
	Webhook *Webhook `json:"webhook,omitempty"`
}

// FollowupRequest is the body of a request that sends another prompt to an
// agent.
type FollowupRequest struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	Prompt *Prompt  `json:"prompt" nullable:"false"`
}

// Prompt is the task for an agent.
type Prompt struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	Text   string   `json:"text" minLength:"1" doc:"what to do; at most 1 MiB"`
	Images []Image  `json:"images,omitempty" maxItems:"5" nullable:"false"`
}

// Image has either Data or URL; URL is an addition to the API.
type Image struct {
	_         struct{}   `json:"-" additionalProperties:"true"`
	Data      *string    `json:"data,omitempty" minLength:"1" doc:"the image in base64; at most 15 MiB of it"`
	URL       *string    `json:"url,omitempty" format:"uri" doc:"where the server fetches it; an addition to the API"`
	Dimension *Dimension `json:"dimension,omitempty"`
}

// Dimension is the size of an image in pixels.
type Dimension struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	Width  int      `json:"width" minimum:"1"`
	Height int      `json:"height" minimum:"1"`
}

// Source says where an agent's work starts.
type Source struct {
	_          struct{} `json:"-" additionalProperties:"true"`
	Repository *string  `json:"repository,omitempty" minLength:"1"`
	PRURL      *string  `json:"prUrl,omitempty" doc:"in place of repository"`
	Ref        *string  `json:"ref,omitempty" minLength:"1" doc:"a branch, a tag or a commit; the default branch where it is absent"`
}

// Target says where an agent's work goes.
type Target struct {
	_                     struct{} `json:"-" additionalProperties:"true"`
	AutoCreatePR          bool     `json:"autoCreatePr,omitempty" default:"false"`
	BranchName            *string  `json:"branchName,omitempty" minLength:"1" doc:"of a branch that is not there yet; made of the prompt where it is absent"`
	AutoBranch            *bool    `json:"autoBranch,omitempty" default:"true" doc:"false works on the branch that source names"`
	OpenAsCursorGithubApp bool     `json:"openAsCursorGithubApp,omitempty" default:"false" doc:"open its pull requests as the GitHub App of the server's configuration, which must have one for the repository"`
	SkipReviewerRequest   bool     `json:"skipReviewerRequest,omitempty" default:"false"`
}

// Webhook is called each time the agent's work ends.
type Webhook struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	URL    string   `json:"url" format:"uri" maxLength:"2048"`
	Secret *string  `json:"secret,omitempty" minLength:"32" maxLength:"256" doc:"what deliveries are signed with"`
}

// Agent is an agent in replies.
type Agent struct {
	_         struct{}    `json:"-" additionalProperties:"true"`
	ID        string      `json:"id"`
	Name      string      `json:"name"`
	Status    string      `json:"status" enum:"CREATING,RUNNING,FINISHED,ERROR,EXPIRED"`
	Source    AgentSource `json:"source"`
	Target    AgentTarget `json:"target"`
	Summary   string      `json:"summary,omitempty" doc:"the agent's last words"`
	CreatedAt time.Time   `json:"createdAt"`
}

// AgentSource is where an agent's work started.
type AgentSource struct {
	_          struct{} `json:"-" additionalProperties:"true"`
	Repository string   `json:"repository"`
	Ref        string   `json:"ref,omitempty"`
}

// AgentTarget is where an agent's work is.
type AgentTarget struct {
	_            struct{} `json:"-" additionalProperties:"true"`
	BranchName   string   `json:"branchName,omitempty"`
	URL          string   `json:"url" doc:"of the agent, for a browser"`
	PRURL        string   `json:"prUrl,omitempty"`
	AutoCreatePR bool     `json:"autoCreatePr"`
}

// ListAgents is a page of agents.
type ListAgents struct {
	_          struct{} `json:"-" additionalProperties:"true"`
	Agents     []Agent  `json:"agents" nullable:"false"`
	NextCursor string   `json:"nextCursor,omitempty" minLength:"1"`
}

// ID is the reply that names the affected agent.
type ID struct {
	_  struct{} `json:"-" additionalProperties:"true"`
	ID string   `json:"id"`
}

// Conversation is an agent's messages, oldest first.
type Conversation struct {
	_        struct{}  `json:"-" additionalProperties:"true"`
	ID       string    `json:"id"`
	Messages []Message `json:"messages" nullable:"false"`
}

// Message is a message of the user or of the agent.
type Message struct {
	_    struct{} `json:"-" additionalProperties:"true"`
	ID   string   `json:"id"`
	Type string   `json:"type" enum:"user_message,assistant_message"`
	Text string   `json:"text"`
}

// ListArtifacts is the list of all artifacts of an agent.
type ListArtifacts struct {
	_         struct{}   `json:"-" additionalProperties:"true"`
	Artifacts []Artifact `json:"artifacts" nullable:"false"`
}

// Artifact is a file that outlives its machine.
type Artifact struct {
	_            struct{}  `json:"-" additionalProperties:"true"`
	AbsolutePath string    `json:"absolutePath" doc:"in the machine"`
	SizeBytes    int64     `json:"sizeBytes" minimum:"0"`
	UpdatedAt    time.Time `json:"updatedAt"`
}

// Download is where an artifact can be downloaded.
type Download struct {
	_         struct{}  `json:"-" additionalProperties:"true"`
	URL       string    `json:"url" format:"uri"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Me is the user of the API key.
type Me struct {
	_          struct{}  `json:"-" additionalProperties:"true"`
	APIKeyName string    `json:"apiKeyName"`
	CreatedAt  time.Time `json:"createdAt"`
	UserEmail  string    `json:"userEmail,omitempty" format:"email"`
}

// ListModels is the list of model ids.
type ListModels struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	Models []string `json:"models" nullable:"false"`
}

// ListRepositories is the list of all repositories of /v1.
type ListRepositories struct {
	_            struct{}     `json:"-" additionalProperties:"true"`
	Repositories []Repository `json:"repositories" nullable:"false"`
}

// Repository is a repository, with its name split into parts.
type Repository struct {
	_          struct{} `json:"-" additionalProperties:"true"`
	Owner      string   `json:"owner"`
	Name       string   `json:"name"`
	Repository string   `json:"repository" format:"uri"`
}
