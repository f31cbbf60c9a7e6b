package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/agent/fork"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// Forks saves the disks of machines for new agents. The caller has authorized
// the request already. Its methods are safe for concurrent use.
type Forks interface {
	// Fork saves the disk of the agent's machine, if head is the agent's last
	// event. If alive is true and the runtime supports it, it also saves the
	// memory; bootID then identifies the boot that continues. Disk and memory
	// are kept until release is called and every new agent that starts from
	// them has started.
	Fork(ctx context.Context, agentID string, head int64, alive bool) (layerID, bootID string, release func(), err error)
}

// A ForkRequest describes agents that continue from another agent's state.
type ForkRequest struct {
	By      account.APIKey    // who asks for the forks and will own them
	Agent   agent.Agent       // the agent that the forks continue
	Forks   []ForkPrompt      // at least one
	Turn    int               // number of the model's reply after which the forks continue, from 1; 0 means the last reply
	Model   *model.Ref        // default the agent's model
	EnvVars map[string]string // variables of the forks; the agent's own are not copied
	Trace   string            // the request's traceparent
}

// A ForkPrompt is the first prompt of one fork.
type ForkPrompt struct {
	// ID is the id of the fork, and RunID that of its first run. If an earlier
	// attempt of the same request has created them, Fork returns that fork.
	ID, RunID string
	Prompt    Prompt
	Field     string // the request's field with the prompt, for errors; default prompt
}

// ForkResult is the result of [Creator.Fork].
type ForkResult struct {
	Turn  int  // number of the reply after which the forks continue
	Disk  bool // whether the forks start from a copy of the machine's disk
	Live  bool // whether the machine's processes are copied too
	Forks []Result
}

// A forkStart is the state that forks start from.
type forkStart struct {
	fork.Point
	notice []agent.Event // events that tell the forks about changes
	layer  string        // saved disk, or ""
	bootID string        // boot whose processes continue, or ""
}

// Fork journals agents that continue from another agent's state, each with its
// first run, and wakes the scheduler. If one fork cannot be created, none is
// created. The caller has authorized the use of the agent and of its
// repositories.
func (c *Creator) Fork(ctx context.Context, q ForkRequest) (ForkResult, error) {
	var model *string
	if q.Model != nil {
		chosen, err := c.Models.Choose(ctx, q.Model)
		if err != nil {
			return ForkResult{}, err
		}
		model = &chosen
	}
	earlier, err := c.earlierFork(ctx, &q)
	if err != nil {
		return ForkResult{}, err
	}
	var start forkStart
	if start.Point, err = c.forkPoint(ctx, &q, earlier); err != nil {
		return ForkResult{}, err
	}
	if model != nil {
		start.Created.Model = *model
	}
	if start.notice, err = c.changeOwner(ctx, q.By, &start.Created); err != nil {
		return ForkResult{}, err
	}
	release, err := c.saveDisk(ctx, &q, earlier, &start)
	if err != nil {
		return ForkResult{}, err
	}
	defer release()
	out := ForkResult{Turn: start.Turn, Disk: start.layer != "", Live: start.bootID != ""}
	if out.Forks, err = c.addForks(ctx, &q, start); err != nil {
		return ForkResult{}, err
	}
	for _, f := range q.Forks {
		c.Wake(f.ID)
	}
	return out, nil
}

// earlierFork returns the journaled events of the first fork that an earlier
// attempt of the same request created, so that this attempt uses the same fork
// point and disk. If there was no earlier attempt, it checks the quotas and
// returns nil.
func (c *Creator) earlierFork(ctx context.Context, q *ForkRequest) (*agent.Forked, error) {
	first, err := c.Journal.Read(ctx, q.Forks[0].ID, 0, 2)
	if err != nil {
		return nil, err
	}
	if earlier := forkedOf(first); earlier != nil {
		return earlier, nil
	}
	return nil, c.Quotas.MayAdd(ctx, c.Agents, q.By.UserID, Quotas{Agents: len(q.Forks), Running: len(q.Forks)})
}

// forkPoint returns the state from which forks of the agent continue. If the
// same request has created a fork before, it returns the state that the fork
// started from.
func (c *Creator) forkPoint(ctx context.Context, q *ForkRequest, earlier *agent.Forked) (fork.Point, error) {
	events, err := store.ReadAll(ctx, c.Journal, q.Agent.ID)
	if err != nil {
		return fork.Point{}, err
	}
	if earlier != nil {
		if earlier.AgentID != q.Agent.ID || earlier.Seq > int64(len(events)) {
			return fork.Point{}, fault.Conflict("was already used for another request").Named("idempotency_key_reused").At("Idempotency-Key")
		}
		events = events[:earlier.Seq]
	}
	p, err := fork.At(q.Agent.ID, events, q.Turn)
	if errors.Is(err, agent.ErrNoTurn) {
		return p, fault.Invalid("is %d; the agent has had %d turns", q.Turn, p.Turn).Hint("omit turn to continue after the last").At("turn")
	}
	if err != nil {
		return p, err
	}
	if p.Last && !p.State.Run.Status.Ended() {
		return p, fault.Conflict("the agent is working on %s", p.State.Run.ID).Named(CodeBusy).
			Hint("wait until it ends, or choose an earlier turn: the forks then start from what was pushed at that turn")
	}
	return p, nil
}

// changeOwner makes the caller the owner of the forks: the forks get the
// caller's secrets instead of those of the agent's owner. They lose a saved
// environment of the agent's owner; notice tells them so.
func (c *Creator) changeOwner(ctx context.Context, by account.APIKey, created *agent.Created) (notice []agent.Event, err error) {
	if created.UserID == by.UserID {
		return nil, nil
	}
	created.UserID = by.UserID
	if created.Env.ID == "" {
		return nil, nil
	}
	e, err := c.Environments.Environment(ctx, created.Env.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("read environment: %w", err)
	}
	if err == nil && e.Team {
		return nil, nil
	}
	const words = "The agent that this one was forked from has a saved environment of another person, which is not copied: " +
		"a new machine is created as for an agent that names no environment, without that environment's secrets."
	created.Env.ID, created.Env.Name, created.EnvironmentText = "", "", ""
	return []agent.Event{{Body: &agent.Notice{Code: agent.CodeEnvironmentGone, Text: words}}}, nil
}

// saveDisk saves the disk of the agent's machine for the forks, if the forks
// continue from the latest reply and there is a machine. The caller calls
// release once the forks are journaled.
func (c *Creator) saveDisk(ctx context.Context, q *ForkRequest, earlier *agent.Forked, start *forkStart) (release func(), err error) {
	none := func() {}
	if earlier != nil {
		start.layer, start.bootID = earlier.Layer, earlier.BootID
		return none, nil
	}
	if !start.Last || start.State.MachineID == "" || c.Forks == nil {
		return none, nil
	}
	alive, err := c.mayForkAlive(ctx, q.By, q.Agent)
	if err != nil {
		return nil, err
	}
	layer, bootID, release, err := c.Forks.Fork(ctx, q.Agent.ID, start.State.Agent.Head, alive)
	if fault.Is(err, fault.KindNotImplemented) || err != nil && fault.Of(err).Code == "machine_absent" {
		return none, nil
	}
	start.layer, start.bootID = layer, bootID
	return release, err
}

// mayForkAlive reports whether forks may get the memory of the agent's machine.
// The memory contains environment variables, so only the agent's owner may, and
// nobody may if the agent has envVars or MCP servers of its own.
func (c *Creator) mayForkAlive(ctx context.Context, by account.APIKey, a agent.Agent) (bool, error) {
	if a.UserID != by.UserID {
		return false, nil
	}
	own, err := c.Secrets.List(ctx, secret.Owner{Kind: secret.OfAgent, ID: a.ID}, secret.Owner{Kind: secret.OfMCPAgent, ID: a.ID})
	return len(own) == 0, err
}

// addForks journals the forks. If one fails, addForks deletes the forks that it
// has added.
func (c *Creator) addForks(ctx context.Context, q *ForkRequest, start forkStart) (out []Result, err error) {
	var added []string
	from := &imageCache{Outbound: c.Outbound, found: map[string]Image{}}
	for _, f := range q.Forks {
		events, fresh, err := c.addFork(ctx, q, start, f, from)
		if err != nil {
			for _, id := range added { // the new agents have not been started yet
				err = errors.Join(err, c.Agents.DeleteAgent(ctx, id))
			}
			return nil, err
		}
		if fresh {
			added = append(added, f.ID)
		}
		out = append(out, resultOf(f.ID, f.RunID, events))
	}
	return out, nil
}

// addFork journals one fork with its first run, and returns its first events.
// fresh is false if an earlier attempt of the same request created it.
func (c *Creator) addFork(ctx context.Context, q *ForkRequest, start forkStart, f ForkPrompt, from Outbound) (first []agent.Event, fresh bool, err error) {
	prompt, err := f.Prompt.Fetch(ctx, from)
	if err != nil {
		at := fault.Of(err)
		return c.findFork(ctx, q, f, at.At(cmp.Or(f.Field, "prompt")+strings.TrimPrefix(at.Field, "prompt")))
	}
	sealed, mcp, err := c.sealFork(ctx, q, start.State, f)
	if err != nil {
		return nil, false, err
	}
	text := f.Prompt.Text
	branch, err := c.forkBranch(ctx, f.ID, cmp.Or(strings.TrimSpace(text), start.Created.Name))
	if err != nil {
		return nil, false, err
	}
	events := append(fork.Events(start.Point, agent.NameFrom(text), branch, start.layer, start.bootID), start.notice...)
	events = append(events, agent.Event{RunID: f.RunID, Body: &agent.RunCreated{Prompt: prompt, MCP: mcp, Trace: q.Trace, Limit: &start.State.Agent.Limit}})
	if err := c.inherit(ctx, q.Agent.ID, f.ID); err != nil {
		return nil, false, err
	}
	var head int64
	first, err = c.Journal.Append(ctx, store.Append{AgentID: f.ID, IfHead: &head, Secrets: sealed, Events: events})
	if errors.Is(err, store.ErrExists) {
		return c.findFork(ctx, q, f, fmt.Errorf("agent %s: %w", f.ID, err))
	}
	return first, err == nil, err
}

// maxFirstFork is how many events the first append of a fork has at most.
const maxFirstFork = 16

// findFork returns the first events of a fork that an earlier attempt of the same
// request has created. If there is none, it returns the error missing.
func (c *Creator) findFork(ctx context.Context, q *ForkRequest, f ForkPrompt, missing error) (first []agent.Event, fresh bool, err error) {
	all, err := c.Journal.Read(ctx, f.ID, 0, maxFirstFork)
	if err != nil {
		return nil, false, err
	}
	run := slices.IndexFunc(all, func(e agent.Event) bool { _, ok := e.Body.(*agent.RunCreated); return ok })
	if made := forkedOf(all); made == nil || made.AgentID != q.Agent.ID || run < 0 || all[run].RunID != f.RunID {
		return nil, false, missing
	}
	return all[:run+1], false, SamePrompt(all[run], f.Prompt.message())
}

// forkBranch returns the name of a fork's branch: derived from the prompt, or in
// privacy mode from the fork's id alone.
func (c *Creator) forkBranch(ctx context.Context, id, prompt string) (string, error) {
	settings, err := store.Settings(ctx, c.Rules)
	if err != nil {
		return "", err
	}
	if settings.Now().Privacy {
		return agent.PrivateBranch(id), nil
	}
	return agent.NewBranch(prompt), nil
}

// sealFork encrypts the secrets of a fork. mcp is true if the fork has MCP
// servers of the agent. A fork by the agent's owner inherits the agent's
// secrets. Forks by others do not, because the servers are authorized with the
// owner's credentials.
func (c *Creator) sealFork(ctx context.Context, q *ForkRequest, of *agent.State, f ForkPrompt) (sealed []secret.Sealed, mcp bool, err error) {
	if sealed, err = c.sealEnvVars(ctx, f.ID, q.EnvVars); err != nil {
		return nil, false, err
	}
	inherited, err := c.Secrets.SealInherited(ctx, f.ID, of.Agent)
	if err != nil {
		return nil, false, err
	}
	sealed = append(sealed, inherited...)
	if of.MCPRun == "" || of.Agent.UserID != q.By.UserID {
		return sealed, false, nil
	}
	servers, err := c.MCP.OfRun(ctx, of.Agent.ID, of.MCPRun)
	if err != nil || servers == "" {
		return sealed, false, err
	}
	one, err := c.Secrets.SealMCP(ctx, f.ID, f.RunID, servers)
	return append(sealed, one), true, err
}

// forkedOf returns the Forked event at the beginning of a journal, or nil if
// the agent is not a fork.
func forkedOf(first []agent.Event) *agent.Forked {
	if len(first) < 2 {
		return nil
	}
	f, _ := first[1].Body.(*agent.Forked)
	return f
}

// inherit restricts a new fork like the agent that it is forked from. If the
// fork's id is taken, the agent that has it stays as it is.
func (c *Creator) inherit(ctx context.Context, agentID, forkID string) error {
	if c.Inherit == nil {
		return nil
	}
	_, err := c.Agents.Agent(ctx, forkID)
	if errors.Is(err, store.ErrNotFound) {
		return c.Inherit(ctx, agentID, forkID)
	}
	return err
}
