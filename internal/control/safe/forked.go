package safe

import (
	"context"

	"golang.org/x/sync/errgroup"

	"aloft/internal/agent"
	"aloft/internal/secret"
)

// SealInherited encrypts an agent's secrets for its fork, as part of the append
// that creates the fork. The values may be on the copied disk, so they must
// still be redacted after the original agent is deleted. They do not become
// variables of the fork's machine.
func (s *Safe) SealInherited(ctx context.Context, forkID string, of agent.Agent) ([]secret.Sealed, error) {
	set, err := s.chooseSecrets(ctx, of)
	if err != nil {
		return nil, err
	}
	earlier, err := s.inherited(ctx, of.ID)
	if err != nil {
		return nil, err
	}
	values, known := earlier, map[string]bool{}
	for _, value := range earlier {
		known[value] = true
	}
	for name, value := range set.Values() {
		if !known[value] {
			values[name+" of "+of.ID] = value
		}
	}
	return s.sealAll(ctx, secret.Owner{Kind: secret.OfForked, ID: forkID}, values)
}

// inherited decrypts the secrets of the agents from which this agent was
// forked.
func (s *Safe) inherited(ctx context.Context, agentID string) (map[string]string, error) {
	all, err := s.all(ctx, secret.Owner{Kind: secret.OfForked, ID: agentID})
	if err != nil {
		return nil, err
	}
	opened := make([]string, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, one := range all {
		group.Go(func() (err error) {
			opened[i], err = s.open(ctx, one)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	values := make(map[string]string, len(all))
	for i, one := range all {
		values[one.Name] = opened[i]
	}
	return values, nil
}
