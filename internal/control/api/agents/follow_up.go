package agents

import (
	"context"

	"aloft/internal/control/agents"
	"aloft/internal/control/api/modelchoice"
)

// FollowUp sends an agent a prompt on behalf of the agent's owner, or queues
// the prompt if the agent works. event is [agent.RunCreated.By]. A repetition with
// the same run id and prompt changes nothing.
func (s *API) FollowUp(ctx context.Context, agentID, runID, event, prompt, model string) error {
	of, err := s.Agents.Agent(ctx, agentID)
	if err != nil {
		return err
	}
	who, err := agents.ActFor(ctx, s.Accounts, of.UserID)
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
	checked.run.By = event
	_, err = s.enqueue(ctx, who, agentID, runID, checked)
	return err
}
