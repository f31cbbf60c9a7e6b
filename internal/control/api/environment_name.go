package api

import (
	"context"
	"fmt"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

const codeNoEnvironment = "environment_not_found"

// chooseEnvironment resolves env.name in a request: to the caller's own
// environment with that name, or else the team's. It returns nil if the request
// names none. A request without repositories gets the environment's
// repositories.
func (s *server) chooseEnvironment(ctx context.Context, who account.APIKey, in *createAgentRequestJSON) (*environment.Saved, error) {
	if in.Env == nil || in.Env.Type != "cloud" || in.Env.Name == nil || *in.Env.Name == "" {
		return nil, nil // later checks reject an invalid env
	}
	named, err := s.environmentsNamed(ctx, who.UserID, *in.Env.Name)
	if err != nil {
		return nil, err
	}
	var own, team []environment.Saved
	for _, e := range named {
		if e.Team {
			team = append(team, e)
		} else {
			own = append(own, e)
		}
	}
	if len(own) == 0 {
		own = team
	}
	switch len(own) {
	case 0:
		return nil, fault.Invalid("neither you nor the team have an environment %s", quoted(*in.Env.Name)).Named(codeNoEnvironment).
			Hint("list environments with GET /v1/environments").At("env.name")
	case 1:
	default:
		return nil, fault.Conflict("%d environments are named %s", len(own), quoted(*in.Env.Name)).Named("environment_name_conflict").
			Hint("rename all but one of them").At("env.name")
	}
	if len(in.Repos) == 0 {
		for _, url := range own[0].Repos {
			in.Repos = append(in.Repos, repoConfigJSON{URL: url})
		}
	}
	return &own[0], nil
}

// use assigns the environment to the agent. If the environment lists
// repositories, it can be used only with those: its secrets are meant for them.
func use(e environment.Saved, created *agent.Created) error {
	for i, r := range created.Repos {
		if len(e.Repos) > 0 && !e.For(r.URL) {
			return fault.Invalid("is not a repository of the environment %s", quoted(e.Name)).
				Hint("add it to the environment, or omit env.name").At(fmt.Sprintf("repos[%d].url", i))
		}
	}
	created.Env.ID, created.EnvironmentText = e.ID, e.Text
	return nil
}

// environmentsNamed returns the user's and the team's environments of a name.
func (s *server) environmentsNamed(ctx context.Context, userID int64, name string) (named []environment.Saved, err error) {
	if s.Saved == nil {
		return nil, nil
	}
	for p := (store.Page{Limit: batch}); ; {
		list, err := s.Saved.ListEnvironments(ctx, userID, p)
		if err != nil {
			return nil, fmt.Errorf("list environments: %w", err)
		}
		for _, e := range list {
			if e.Name == name {
				named = append(named, e)
			}
			p.BeforeTime, p.BeforeID = e.CreatedAt, e.ID
		}
		if len(list) < p.Limit {
			return named, nil
		}
	}
}

// saveEnvironment saves an environment. If renamed is true, it rejects a name
// that another environment of the same owner has.
func (s *server) saveEnvironment(ctx context.Context, e environment.Saved, renamed bool) error {
	s.naming.Lock() // two concurrent renames would not see each other's name
	defer s.naming.Unlock()
	if renamed {
		named, err := s.environmentsNamed(ctx, e.UserID, e.Name)
		if err != nil {
			return err
		}
		for _, other := range named {
			if other.ID != e.ID && other.Team == e.Team {
				return fault.Conflict("environment %s exists already", quoted(e.Name)).Named("environment_name_conflict").At("name")
			}
		}
	}
	return s.Saved.PutEnvironment(ctx, e)
}
