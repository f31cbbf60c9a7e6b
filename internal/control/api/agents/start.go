package agents

import (
	"context"
	"crypto/sha256"
	"strings"

	"aloft/internal/account"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"

	"github.com/google/uuid"
)

// Start describes an agent that the server starts for a user without a request
// of theirs, such as after a comment at a forge.
type Start struct {
	AgentID     string // from [ReservedID]
	UserID      int64  // the owner
	Prompt      string
	RepoURL     string
	PullRequest string // URL of the pull request to work on; "" to open one
	Branch      string // to start from; "" is the default. Not with PullRequest.
	Model       string // "" is the default
}

// ReservedID returns an agent id for the words that no client can choose. The
// same words always return the same id.
func ReservedID(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	var id uuid.UUID
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | rest.Reserved<<4
	id[8] = id[8]&0x3f | 0x80
	return "bc-" + id.String()
}

// Start starts an agent as a request of its owner would, with the same rules. If
// an agent has the id already, the fault is agent_id_conflict.
func (s *API) Start(ctx context.Context, o Start) error {
	who, err := s.acting(ctx, o.UserID)
	if err != nil {
		return err
	}
	in := createAgentRequestJSON{Prompt: &promptJSON{Text: o.Prompt}, Repos: []repoConfigJSON{{URL: o.RepoURL}}, AutoCreatePR: true}
	switch {
	case o.PullRequest != "":
		in.Repos = []repoConfigJSON{{PRURL: &o.PullRequest}}
		in.WorkOnCurrentBranch, in.AutoCreatePR = true, false
	case o.Branch != "":
		in.Repos[0].StartingRef = &o.Branch
	}
	if o.Model != "" {
		in.Model = &modelchoice.ModelRefJSON{ID: o.Model}
	}
	_, _, err = s.startAgent(ctx, who, &in, o.AgentID, "", "")
	return err
}

// FollowUp sends an agent a prompt as its owner, or queues it if the agent works.
// A repeat with the same run id and prompt changes nothing.
func (s *API) FollowUp(ctx context.Context, agentID, runID, prompt, model string) error {
	of, err := s.Agents.Agent(ctx, agentID)
	if err != nil {
		return err
	}
	who, err := s.acting(ctx, of.UserID)
	if err != nil {
		return err
	}
	if err := s.MayReach(ctx, who, of.Repos); err != nil {
		return err
	}
	more := FollowUp{Prompt: &promptJSON{Text: prompt}}
	if model != "" {
		more.Model = &modelchoice.ModelRefJSON{ID: model}
	}
	var checked followUp
	if err := s.checkFollowUp(ctx, of, &more, &checked); err != nil {
		return err
	}
	_, err = s.enqueue(ctx, who, agentID, runID, checked)
	return err
}

// acting returns the key with which the server acts for a user. It fails if the
// user cannot start agents.
func (s *API) acting(ctx context.Context, userID int64) (account.APIKey, error) {
	user, err := s.Accounts.User(ctx, userID)
	if err != nil {
		return account.APIKey{}, err
	}
	if user.Disabled || !user.Role.Covers(account.Member) {
		return account.APIKey{}, fault.Denied("the account of %s may not start agents", user.Name()).Hint("ask an admin")
	}
	return account.APIKey{UserID: user.ID, Role: user.Role}, nil
}
