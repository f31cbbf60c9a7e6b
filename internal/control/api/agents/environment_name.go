package agents

import (
	"context"
	"fmt"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// chooseEnvironment resolves env.name in a request: to the caller's own
// environment with that name, or else the team's. It returns nil if the request
// names none. A request without repositories gets the environment's
// repositories.
func (s *API) chooseEnvironment(ctx context.Context, who account.APIKey, in *createAgentRequestJSON) (*environment.Saved, error) {
	if in.Env == nil || in.Env.Type != "cloud" || in.Env.Name == nil || *in.Env.Name == "" {
		return nil, nil // later checks reject an invalid env
	}
	named, err := s.environments.EnvironmentsNamed(ctx, who.UserID, *in.Env.Name)
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
		return nil, fault.Invalid("neither you nor the team have an environment %s", rest.Quoted(*in.Env.Name)).Named(rest.CodeNoEnvironment).
			Hint("list environments with GET /v1/environments").At("env.name")
	case 1:
	default:
		return nil, fault.Conflict("%d environments are named %s", len(own), rest.Quoted(*in.Env.Name)).Named("environment_name_conflict").
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
			return fault.Invalid("is not a repository of the environment %s", rest.Quoted(e.Name)).
				Hint("add it to the environment, or omit env.name").At(fmt.Sprintf("repos[%d].url", i))
		}
	}
	created.Env.ID, created.EnvironmentText = e.ID, e.Text
	return nil
}
