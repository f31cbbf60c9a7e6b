package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/agent/fork"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// Forks saves the disks of machines for new agents. The caller has authorized
// the request already. Its methods are safe for concurrent use.
type Forks interface {
	// Fork saves the disk of the agent's machine, if head is the agent's last
	// event. If alive is true and the runtime supports it, it also saves the
	// memory; bootID then identifies the boot that continues. Both are kept
	// until release is called, and after that for as long as a new agent waits
	// to start from them.
	Fork(ctx context.Context, agentID string, head int64, alive bool) (layerID, bootID string, release func(), err error)
}

// maxForks is how many agents one request can create.
const maxForks = 10

type forkRequestJSON struct {
	_       struct{}                  `json:"-" additionalProperties:"true"`
	N       *int                      `json:"n,omitempty" minimum:"1" maximum:"10" doc:"number of forks; default the number of prompts"`
	Prompt  *promptJSON               `json:"prompt,omitempty" doc:"prompt for every fork"`
	Prompts []promptJSON              `json:"prompts,omitempty" maxItems:"10" nullable:"false" doc:"one prompt per fork, instead of prompt"`
	Turn    *int                      `json:"turn,omitempty" minimum:"1" doc:"number of the model's reply to continue after, from 1; default the last"`
	Model   *modelchoice.ModelRefJSON `json:"model,omitempty" doc:"default the agent's model"`
	EnvVars map[string]string         `json:"envVars,omitempty" maxProperties:"50" doc:"for the forks' machines; the agent's own variables are not copied"`
}

type forkResponseJSON struct {
	_     struct{}                  `json:"-" additionalProperties:"true"`
	Turn  int                       `json:"turn" doc:"turn that the forks continue after"`
	Disk  bool                      `json:"disk" doc:"the forks start from a copy of the machine's disk, rather than from what was pushed then"`
	Live  bool                      `json:"live" doc:"the machine's processes are copied too"`
	Items []createAgentResponseJSON `json:"items" nullable:"false"`
}

// forkPlan is a validated fork request.
type forkPlan struct {
	prompts []conversation.Message
	turn    int
	model   *string
	vars    map[string]string
}

func (s *API) forkAgent(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	key, err := rest.IdempotencyKey(r)
	if err != nil {
		return err
	}
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	var in forkRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	if err := s.MayReach(r.Context(), who, a.Repos); err != nil {
		return err
	}
	f, err := s.forking(r.Context(), &in)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.Context()) // a half-finished fork is of no use
	ids := make([]string, len(f.prompts))
	for i := range ids {
		if ids[i] = agent.NewID(); key != "" {
			if ids[i], err = s.IDOfKey(ctx, who, "fork "+a.ID+" "+strconv.Itoa(i), key); err != nil {
				return err
			}
		}
	}
	// A repeated request reuses the fork point and the disk of the first one.
	known, err := s.Journal.Read(ctx, ids[0], 0, 2)
	if err != nil {
		return err
	}
	before := forkedOf(known)
	if before == nil {
		if err := s.MayAdd(ctx, who.UserID, rest.Quotas{Agents: len(ids), Running: len(ids)}); err != nil {
			return err
		}
	}
	p, err := s.forkPoint(ctx, a, f.turn, before)
	if err != nil {
		return err
	}
	if f.model != nil {
		p.Created.Model = *f.model
	}
	notice, err := s.forkedBy(ctx, who, &p.Created)
	if err != nil {
		return err
	}
	var layer, bootID string
	switch {
	case before != nil:
		layer, bootID = before.Layer, before.BootID
	case p.Last && p.State.MachineID != "" && s.Forks != nil:
		alive, err := s.mayForkAlive(ctx, who, a)
		if err != nil {
			return err
		}
		saved, life, release, err := s.Forks.Fork(ctx, a.ID, p.State.Agent.Head, alive)
		if err == nil {
			layer, bootID = saved, life
			defer release()
		} else if !fault.Is(err, fault.KindNotImplemented) && fault.Of(err).Code != "machine_absent" {
			return err
		}
	}
	out := forkResponseJSON{Turn: p.Turn, Disk: layer != "", Live: bootID != "", Items: []createAgentResponseJSON{}}
	var made []string
	for i, prompt := range f.prompts {
		item, fresh, err := s.forkOne(r, who, p, notice, ids[i], key, prompt, f.vars, layer, bootID)
		if err != nil {
			for _, id := range made { // the new agents have not been started yet
				err = errors.Join(err, s.Agents.DeleteAgent(ctx, id))
			}
			return err
		}
		if fresh {
			made = append(made, ids[i])
		}
		out.Items = append(out.Items, item)
	}
	for _, id := range ids {
		s.Work.Wake(id)
	}
	return rest.WriteJSON(w, http.StatusCreated, out)
}

// forkedBy makes the forks those of who asks for them: they have that person's
// secrets, and not those of the agent's person. A saved environment of the agent's
// person is dropped, and notice tells the forks so.
func (s *API) forkedBy(ctx context.Context, who account.APIKey, created *agent.Created) (notice []agent.Event, err error) {
	if created.UserID == who.UserID {
		return nil, nil
	}
	created.UserID = who.UserID
	if created.Env.ID == "" {
		return nil, nil
	}
	e, err := s.Saved.Environment(ctx, created.Env.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("read environment: %w", err)
	}
	if err == nil && e.Team {
		return nil, nil
	}
	const words = "The agent that this one was forked from has a saved environment of another person, which does not come along: " +
		"a new machine is made as for an agent that names no environment, without that environment's secrets."
	created.Env.ID, created.Env.Name, created.EnvironmentText = "", "", ""
	return []agent.Event{{Body: &agent.Notice{Code: agent.CodeEnvironmentGone, Text: words}}}, nil
}

// mayForkAlive reports whether forks may get the memory of the agent's machine.
// Its processes hold environment variables, so the answer is no for another
// person, and if the agent has envVars or MCP servers of its own: those are meant
// for this agent alone.
func (s *API) mayForkAlive(ctx context.Context, who account.APIKey, a agent.Agent) (bool, error) {
	if a.UserID != who.UserID {
		return false, nil
	}
	own, err := s.Secrets.List(ctx, secret.Owner{Kind: secret.OfAgent, ID: a.ID}, secret.Owner{Kind: secret.OfMCPAgent, ID: a.ID})
	return len(own) == 0, err
}

// forking validates the whole request.
func (s *API) forking(ctx context.Context, in *forkRequestJSON) (forkPlan, error) {
	var f forkPlan
	n := 1
	switch {
	case in.Prompt != nil && in.Prompts != nil:
		return f, fault.Invalid("give either prompt, for all forks, or prompts, one per fork").At("prompts")
	case in.Prompts != nil:
		n = len(in.Prompts)
	}
	if in.N != nil {
		if in.Prompts != nil && *in.N != n {
			return f, fault.Invalid("is %d, but there are %d prompts", *in.N, n).At("n")
		}
		n = *in.N
	}
	if n < 1 || n > maxForks {
		return f, fault.Invalid("is %d; must be from 1 to %d", n, maxForks).At("n")
	}
	for i := range n {
		prompt, field := in.Prompt, ""
		if in.Prompts != nil {
			prompt, field = &in.Prompts[i], "prompts["+strconv.Itoa(i)+"]"
		}
		m, err := prompt.message()
		if err != nil {
			if at := fault.Of(err); field != "" && at.Kind == fault.KindInvalid {
				return f, at.At(field + strings.TrimPrefix(at.Field, "prompt"))
			}
			return f, err
		}
		f.prompts = append(f.prompts, m)
	}
	if in.Turn != nil {
		if f.turn = *in.Turn; f.turn < 1 {
			return f, fault.Invalid("is %d; turns are counted from 1", f.turn).At("turn")
		}
	}
	if in.Model != nil {
		model, err := s.models.Choose(ctx, in.Model)
		if err != nil {
			return f, err
		}
		f.model = &model
	}
	f.vars = in.EnvVars
	return f, nil
}

// forkPoint returns the state from which forks of the agent continue. If the
// same request has created a fork before, it returns the state that the fork
// started from.
func (s *API) forkPoint(ctx context.Context, a agent.Agent, turn int, before *agent.Forked) (fork.Point, error) {
	events, err := s.journalOf(ctx, a.ID)
	if err != nil {
		return fork.Point{}, err
	}
	if before != nil {
		if before.AgentID != a.ID || before.Seq > int64(len(events)) {
			return fork.Point{}, fault.Conflict("was already used for another request").Named("idempotency_key_reused").At("Idempotency-Key")
		}
		events = events[:before.Seq]
	}
	p, err := fork.At(a.ID, events, turn)
	if errors.Is(err, agent.ErrNoTurn) {
		return p, fault.Invalid("is %d; the agent has had %d turns", turn, p.Turn).Hint("omit turn to continue after the last").At("turn")
	}
	if err != nil {
		return p, err
	}
	if p.Last && !p.State.Run.Status.Ended() {
		return p, fault.Conflict("the agent is working on %s", p.State.Run.ID).Named(rest.CodeBusy).
			Hint("wait until it ends, or choose an earlier turn: the forks then start from what was pushed at that turn")
	}
	return p, nil
}

// forkOne journals one forked agent with its first run. fresh is false if an
// earlier attempt of the same request created it.
func (s *API) forkOne(r *http.Request, who account.APIKey, p fork.Point, notice []agent.Event, id, key string, prompt conversation.Message, vars map[string]string, layer, bootID string) (out createAgentResponseJSON, fresh bool, err error) {
	runID := agent.NewRunID()
	if key != "" {
		runID = "run-" + rest.Named(who, id, key)
	}
	ctx := context.WithoutCancel(r.Context())
	sealed, err := s.sealEnvVars(ctx, id, vars)
	if err != nil {
		return out, false, err
	}
	inherited, err := s.Secrets.SealInherited(ctx, id, p.State.Agent)
	if err != nil {
		return out, false, err
	}
	sealed = append(sealed, inherited...)
	servers, given, err := s.forkedMCP(ctx, who, p.State)
	if err != nil {
		return out, false, err
	}
	seal, err := s.mcpservers.Seal(ctx, id, runID, servers, given)
	if err != nil {
		return out, false, err
	}
	words := prompt.PlainText()
	branch, err := s.newBranch(ctx, id, agent.NewBranch(cmp.Or(strings.TrimSpace(words), p.Created.Name)))
	if err != nil {
		return out, false, err
	}
	events := append(fork.Events(p, agent.NameFrom(words), branch, layer, bootID), notice...)
	events = append(events, agent.Event{RunID: runID, Body: &agent.RunCreated{Prompt: prompt, MCP: given, Trace: rest.TraceOf(r), Limit: &p.State.Agent.Limit}})
	var head int64
	done, err := s.Journal.Append(ctx, store.Append{AgentID: id, IfHead: &head, Secrets: append(sealed, seal...), Events: events})
	if errors.Is(err, store.ErrExists) {
		if done, err = s.Journal.Read(ctx, id, 0, len(events)); err != nil {
			return out, false, err
		}
		last := len(done) - 1
		if made := forkedOf(done); made == nil || made.AgentID != p.State.Agent.ID || done[last].RunID != runID {
			return out, false, fmt.Errorf("agent %s: %w", id, store.ErrExists)
		}
		err = rest.SamePrompt(done[last], prompt)
	} else {
		fresh = err == nil
	}
	if err != nil {
		return out, false, err
	}
	a, run := agent.Agent{ID: id}, agent.Run{AgentID: id}
	for _, e := range done {
		a.Apply(e)
		if e.RunID == runID {
			run.Apply(e)
		}
	}
	out = createAgentResponseJSON{Agent: s.whole(a), Run: runOf(run, Branches{})}
	addSubagents(&out.Agent, done)
	return out, fresh, nil
}

// forkedMCP returns the MCP servers that the agent had at the fork point. A
// fork by the agent's owner inherits them; forks by others do not, because the
// servers are authorized with the owner's credentials.
func (s *API) forkedMCP(ctx context.Context, who account.APIKey, of *agent.State) (value string, given bool, err error) {
	if of.MCPRun == "" || of.Agent.UserID != who.UserID {
		return "", false, nil
	}
	value, err = s.mcpservers.MCP.OfRun(ctx, of.Agent.ID, of.MCPRun)
	return value, value != "", err
}

// forkedOf returns the Forked event at the beginning of a journal, or nil if
// the agent is not a fork.
func forkedOf(events []agent.Event) *agent.Forked {
	if len(events) < 2 {
		return nil
	}
	f, _ := events[1].Body.(*agent.Forked)
	return f
}
