package safe

import (
	"context"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"aloft/internal/agent"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// ForAgent returns the secrets for the agent's machine, and when the first of
// them expires. A zero time means that none expires.
func (s *Safe) ForAgent(ctx context.Context, a agent.Agent) (secret.Set, time.Time, error) {
	set, err := s.chooseSecrets(ctx, a)
	if err != nil {
		return secret.Set{}, time.Time{}, err
	}
	if set.Kept, err = s.inherited(ctx, a.ID); err != nil {
		return secret.Set{}, time.Time{}, err
	}
	until, err := s.assume(ctx, &set, a.ID)
	if err != nil {
		return secret.Set{}, time.Time{}, err
	}
	return set, until, set.Check()
}

// chooseSecrets decrypts the secrets for the agent's machine.
func (s *Safe) chooseSecrets(ctx context.Context, a agent.Agent) (secret.Set, error) {
	owners := []secret.Owner{
		{Kind: secret.OfAgent, ID: a.ID}, {Kind: secret.OfPerson, ID: strconv.FormatInt(a.UserID, 10)}, secret.TheTeam,
	}
	if s.Environment != nil {
		id, err := s.Environment(ctx, a)
		if err != nil {
			return secret.Set{}, err
		}
		if id != "" {
			owners = append(owners, secret.Owner{Kind: secret.OfEnvironment, ID: id})
		}
	}
	urls := make([]string, len(a.Repos))
	for i, r := range a.Repos {
		urls[i] = r.URL
	}
	return s.opened(ctx, secret.ForAgent, urls, owners...)
}

// ForBuild returns the secrets for a build of an environment: those of the
// environment and of the team, but no user's.
func (s *Safe) ForBuild(ctx context.Context, environmentID string, repoURLs []string) (secret.Set, error) {
	set, err := s.opened(ctx, secret.ForBuild, repoURLs, secret.Owner{Kind: secret.OfEnvironment, ID: environmentID}, secret.TheTeam)
	if err != nil {
		return secret.Set{}, err
	}
	return set, set.Check()
}

// opened selects from the owners' secrets those for the use and repositories,
// and decrypts them.
func (s *Safe) opened(ctx context.Context, use secret.Use, repoURLs []string, owners ...secret.Owner) (secret.Set, error) {
	all, err := s.all(ctx, owners...)
	if err != nil {
		return secret.Set{}, err
	}
	repos := make([]string, len(repoURLs))
	for i, u := range repoURLs {
		repos[i] = secret.Repo(u)
	}
	chosen := secret.Choose(all, use, repos)
	values := make([]string, len(chosen))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, c := range chosen {
		group.Go(func() (err error) {
			values[i], err = s.open(ctx, c)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return secret.Set{}, err
	}
	var set secret.Set
	for i, c := range chosen {
		set.Add(c.Name, values[i], c.Type != secret.Variable)
	}
	return set, nil
}

// assume replaces the name of an AWS role by credentials for it.
func (s *Safe) assume(ctx context.Context, set *secret.Set, agentID string) (until time.Time, err error) {
	arn := set.Vars[secret.RoleVariable]
	if arn == "" {
		return until, nil
	}
	if s.Roles == nil {
		return until, fault.Unavailable("%s is set, and this server cannot assume roles", secret.RoleVariable).Named("aws_unavailable").
			Hint("set secrets.aws.region in the server's configuration, or delete the secret")
	}
	externalID, err := s.ExternalID(ctx)
	if err != nil {
		return until, err
	}
	c, err := s.Roles.Assume(ctx, arn, externalID, agentID)
	if err != nil {
		return until, err
	}
	set.Add("AWS_ACCESS_KEY_ID", c.AccessKeyID, true)
	set.Add("AWS_SECRET_ACCESS_KEY", c.SecretAccessKey, true)
	set.Add("AWS_SESSION_TOKEN", c.SessionToken, true)
	return c.Until, nil
}
