package agents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// Create validates the request, journals the agent with its first run, and wakes
// the scheduler. If the agent exists already, the fault is agent_id_conflict,
// unless the request is repeatable.
func (c *Creator) Create(ctx context.Context, q Request) (Result, error) {
	prompt, err := q.Prompt.Message()
	if err != nil {
		return Result{}, err
	}
	created, run, err := c.plan(ctx, &q, prompt.PlainText())
	if err != nil {
		return Result{}, err
	}
	sealed, err := c.seal(ctx, &q)
	if err != nil {
		return Result{}, err
	}
	first, err := c.journal(ctx, &q, prompt, created, run, sealed)
	if err != nil {
		return Result{}, err
	}
	c.Wake(q.ID)
	return resultOf(q.ID, q.RunID, first), nil
}

// plan validates the request except its prompt and its secrets. It returns the
// agent's first two events, the second without its prompt.
func (c *Creator) plan(ctx context.Context, q *Request, prompt string) (*agent.Created, *agent.RunCreated, error) {
	saved, err := c.findEnvironment(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	settings, err := store.Settings(ctx, c.Rules)
	if err != nil {
		return nil, nil, err
	}
	if err := c.reviewedRepo(ctx, q); err != nil {
		return nil, nil, err
	}
	team := settings.Now()
	if q.Repos == nil && team.DefaultRepository != "" {
		q.Repos = []Repository{{URL: team.DefaultRepository}}
	}
	run, err := firstRun(q)
	if err != nil {
		return nil, nil, err
	}
	created, err := c.describe(ctx, q, prompt)
	if err != nil {
		return nil, nil, err
	}
	setTeamBase(created.Repos, team.BaseBranch)
	if saved != nil {
		if err := assignEnvironment(*saved, created); err != nil {
			return nil, nil, err
		}
	}
	of := agent.Agent{Options: agent.Options{Model: created.Model}, CreatedAt: time.Now()}
	if err := c.Models.CheckLimit(ctx, q.Limits, of); err != nil {
		return nil, nil, err
	}
	if err := MayReach(ctx, c.Rules, q.By, created.Repos); err != nil {
		return nil, nil, err
	}
	if team.Privacy && q.BranchName == nil && created.Branch != "" {
		created.Branch = agent.PrivateBranch(q.ID)
	}
	return created, run, nil
}

// firstRun validates what the request says about the agent's first run.
func firstRun(q *Request) (*agent.RunCreated, error) {
	run := &agent.RunCreated{By: q.Event, Trace: q.Trace, MCP: q.MCPServers != nil, Limit: q.Limits, Goal: q.Goal}
	var err error
	if run.Mode, err = CheckMode(q.Mode); err != nil {
		return nil, err
	}
	if run.Checks, err = CheckCommands(q.Checks); err != nil {
		return nil, err
	}
	return run, CheckGoal(q.Goal)
}

// seal validates and encrypts the secrets of the request.
func (c *Creator) seal(ctx context.Context, q *Request) ([]secret.Sealed, error) {
	sealed, err := c.sealEnvVars(ctx, q.ID, q.EnvVars)
	if err != nil {
		return nil, err
	}
	if q.Webhook != nil {
		hook, err := c.sealWebhook(ctx, q.ID, q.Webhook)
		if err != nil {
			return nil, err
		}
		sealed = append(sealed, hook)
	}
	if q.MCPServers == nil {
		return sealed, nil
	}
	encoded, err := c.MCP.CheckAll(q.MCPServers, "mcpServers")
	if err != nil {
		return nil, err
	}
	servers, err := c.Secrets.SealMCP(ctx, q.ID, q.RunID, encoded)
	return append(sealed, servers), err
}

func (c *Creator) sealEnvVars(ctx context.Context, agentID string, vars map[string]string) ([]secret.Sealed, error) {
	if len(vars) == 0 {
		return nil, nil
	}
	if err := secret.CheckEnvVars(vars); err != nil {
		return nil, err
	}
	return c.Secrets.SealEnvVars(ctx, agentID, vars)
}

func (c *Creator) sealWebhook(ctx context.Context, agentID string, hook *Webhook) (secret.Sealed, error) {
	if err := c.Outbound.Check(hook.URL); err != nil {
		return secret.Sealed{}, fault.Of(err).At("webhook.url")
	}
	for i, e := range hook.Events {
		if e != string(store.StatusChange) && e != string(store.ApprovalRequested) {
			return secret.Sealed{}, fault.Invalid("is %q; must be statusChange or approvalRequested", e).At(fmt.Sprintf("webhook.events[%d]", i))
		}
	}
	key := ""
	if hook.Secret != nil {
		if key = *hook.Secret; len(key) < 32 || len(key) > 256 {
			return secret.Sealed{}, fault.Invalid("has %d bytes; must have 32 to 256", len(key)).At("webhook.secret")
		}
	}
	return c.Secrets.SealWebhook(ctx, agentID, hook.URL, key)
}

// journal appends the agent's first events, and returns the journaled events.
// If an earlier attempt of a repeatable request created the agent, it returns
// the events of that attempt, even if an image URL no longer works or the user
// has reached a quota since.
func (c *Creator) journal(ctx context.Context, q *Request, prompt conversation.Message, created *agent.Created, run *agent.RunCreated, sealed []secret.Sealed) ([]agent.Event, error) {
	var err error
	if run.Prompt, err = q.Prompt.Fetch(ctx, c.Outbound); err != nil {
		return c.findRepeated(ctx, q, prompt, err)
	}
	if err := c.Quotas.MayAdd(ctx, c.Agents, q.By.UserID, Quotas{Agents: 1, Running: 1}); err != nil {
		return c.findRepeated(ctx, q, prompt, err)
	}
	var head int64
	first, err := c.Journal.Append(ctx, store.Append{
		AgentID: q.ID, IfHead: &head, Secrets: sealed,
		Events: []agent.Event{{Body: created}, {RunID: q.RunID, Body: run}},
	})
	if errors.Is(err, store.ErrExists) {
		taken := fault.Conflict("agent %s already exists", q.ID).Named("agent_id_conflict").At("agentId")
		return c.findRepeated(ctx, q, prompt, taken)
	}
	return first, err
}
