package fleet

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/execclient"
	"aloft/internal/control/store"
	"aloft/internal/secret"
)

// given records, by agent, every secret that the agent's machine has received
// since the server started. It includes replaced values, because a file or a
// process in the machine may still contain them.
type given struct {
	mu      sync.Mutex
	byAgent map[string]map[string]string // by name; replaced values by name and number
}

func (g *given) add(agentID string, values map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byAgent == nil {
		g.byAgent = map[string]map[string]string{}
	}
	known := g.byAgent[agentID]
	if known == nil {
		known = map[string]string{}
		g.byAgent[agentID] = known
	}
	for name, value := range values {
		if old, ok := known[name]; ok && old != value {
			known[name+" "+strconv.Itoa(len(known))] = old // variable names have no spaces
		}
		known[name] = value
	}
}

// addOf adds the secrets of another agent, under names that do not conflict.
func (g *given) addOf(agentID, other string, values map[string]string) {
	renamed := make(map[string]string, len(values))
	for name, value := range values {
		renamed[name+" of "+other] = value // variable names have no spaces
	}
	g.add(agentID, renamed)
}

// secretsOf returns a copy of the agent's secrets, and whether they are known at all.
func (g *given) secretsOf(agentID string) (map[string]string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known, ok := g.byAgent[agentID]
	return maps.Clone(known), ok
}

func (g *given) forget(agentID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.byAgent, agentID)
}

// variables returns the current variables for the agent's machine, and when
// they expire. From then on the secret values are redacted from the machine's
// output.
func (f *Fleet) variables(ctx context.Context, a agent.Agent) (secret.Set, time.Time, error) {
	if f.Variables == nil || a.Env.Preset == agent.Reviewer { // a reviewer gets none, because anybody may have written the change
		return secret.Set{}, time.Time{}, nil
	}
	set, until, err := f.Variables(ctx, a)
	if err == nil {
		f.given.add(a.ID, set.Values())
		err = f.inherit(ctx, a)
	}
	return set, until, err
}

// inherit adds the secrets of the original agent to those of a fork, because
// these secrets may be on the fork's disk and in its conversation.
func (f *Fleet) inherit(ctx context.Context, a agent.Agent) error {
	for from := a.ForkedFrom; from != ""; {
		of, err := f.Agents.Agent(ctx, from)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		set, _, err := f.Variables(ctx, of)
		if err != nil {
			return err
		}
		f.given.addOf(a.ID, from, set.Values())
		from = of.ForkedFrom
	}
	return nil
}

// know loads an agent's secrets before the server reads from the machine,
// because an earlier server may have sent secrets to the machine.
func (f *Fleet) know(ctx context.Context, a agent.Agent) error {
	if _, ok := f.given.secretsOf(a.ID); ok {
		return nil
	}
	_, _, err := f.variables(ctx, a)
	return err
}

// Times for renewing expiring variables, such as AWS credentials.
const (
	renewBefore = 10 * time.Minute // before they expire
	renewAgain  = time.Minute      // after a failure
)

// renewIn returns how long to wait before variables that expire at until are
// renewed.
func renewIn(until, now time.Time) time.Duration {
	left := until.Sub(now)
	return max(left-min(renewBefore, left/2), time.Second)
}

// keepFresh renews expiring variables in the running machine until ctx ends.
func (w *Work) keepFresh(ctx context.Context, h *readyMachine, machineID string, branches []string, state *agent.State, until time.Time) {
	for wait := renewIn(until, time.Now()); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		until, err := w.renewVariables(ctx, h, machineID, branches, state)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.fleet.Logger.Warn("cannot renew the machine's variables", "agent", w.agentID, "error", err)
			wait = renewAgain
		case until.IsZero():
			return
		default:
			wait = renewIn(until, time.Now())
		}
	}
}

// renewVariables gives the machine fresh variables, after adding them to the
// redacted values.
func (w *Work) renewVariables(ctx context.Context, h *readyMachine, machineID string, branches []string, state *agent.State) (time.Time, error) {
	set, until, err := w.fleet.variables(ctx, state.Agent)
	if err != nil {
		return until, err
	}
	h.conn.Apply(w.fleet.redact(state, machineID))
	h.calls.Apply(execclient.Redact(w.fleet.redactor(state, machineID)))
	if len(state.Agent.Repos) > 0 {
		if _, err := w.fleet.Gateway.Grant(w.grant(h, state, branches)); err != nil {
			return until, err
		}
	}
	return until, execclient.SetEnvironment(ctx, h.conn, w.fleet.token("exec", machineID), set.Environ(), nil)
}
