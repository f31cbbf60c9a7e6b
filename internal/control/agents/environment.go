package agents

import (
	"context"
	"fmt"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

const cloud = "cloud" // the only type of environment that is supported

// maxImageName is the maximum length of an image's name, in bytes.
const maxImageName = 500

// checkEnvironmentType rejects the types that this version does not support.
// Ignoring an unsupported type would silently drop a part of the request.
func checkEnvironmentType(e *Environment) error {
	const field = "env.type"
	switch {
	case e == nil || e.Type == cloud:
		return nil
	case e.Type == "pool" || e.Type == "machine":
		return fault.Invalid("%s: this version of the server does not support %s", field, "environments of type "+e.Type).Named("not_implemented").At(field)
	}
	return fault.Invalid("must be cloud").At(field)
}

// checkEnvironment validates where the agent's machine comes from.
func checkEnvironment(e *Environment) (agent.Env, error) {
	out := agent.Env{Type: cloud}
	if e == nil {
		return out, nil
	}
	if e.Name != nil {
		if out.Name = *e.Name; out.Name == "" || len(out.Name) > 255 {
			return out, fault.Invalid("must have 1 to 255 bytes").At("env.name")
		}
	}
	switch out.Preset = agent.Preset(e.Preset); out.Preset {
	case "", agent.SetUp, agent.VMSetupHelper:
	default:
		return out, fault.Invalid("must be setup or vmSetupHelper, or absent").At("env.preset")
	}
	if out.Image = e.Image; out.Image != "" && (out.Preset != agent.SetUp || len(out.Image) > maxImageName) {
		return out, fault.Invalid("an image requires env.preset setup, and must be at most %d bytes", maxImageName).At("env.image").
			Hint("otherwise set the image in environment.json")
	}
	return out, nil
}

// findEnvironment returns the saved environment that the request names. The
// caller's own environment precedes the team's. It returns nil if the request
// names none. A request without repositories gets the repositories of the
// environment.
func (c *Creator) findEnvironment(ctx context.Context, q *Request) (*environment.Saved, error) {
	e := q.Environment
	if e == nil || e.Type != cloud || e.Name == nil || *e.Name == "" {
		return nil, nil // later checks reject an invalid environment
	}
	named, err := store.EnvironmentsNamed(ctx, c.Environments, q.By.UserID, *e.Name)
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
		return nil, fault.Invalid("neither you nor the team have an environment %s", fault.Quoted(*e.Name)).Named(CodeNoEnvironment).
			Hint("list environments with GET /v1/environments").At("env.name")
	case 1:
	default:
		return nil, fault.Invalid("%d environments are named %s", len(own), fault.Quoted(*e.Name)).Named(CodeNoEnvironment).
			Hint("rename all but one of them").At("env.name")
	}
	if len(q.Repos) == 0 {
		for _, url := range own[0].Repos {
			q.Repos = append(q.Repos, Repository{URL: url})
		}
	}
	return &own[0], nil
}

// assignEnvironment assigns the environment to the agent. If the environment
// lists repositories, the agent may use only those, because the environment's
// secrets are meant for them.
func assignEnvironment(e environment.Saved, created *agent.Created) error {
	for i, r := range created.Repos {
		if len(e.Repos) > 0 && !e.For(r.URL) {
			return fault.Invalid("is not a repository of the environment %s", fault.Quoted(e.Name)).
				Hint("add it to the environment, or omit env.name").At(fmt.Sprintf("repos[%d].url", i))
		}
	}
	created.Env.ID, created.EnvironmentText = e.ID, e.Text
	return nil
}
