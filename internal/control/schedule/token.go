package schedule

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"

	"aloft/internal/agent"
	"aloft/internal/control/model"
	"aloft/internal/control/pod"
	"aloft/internal/redact"
)

// token derives the token for a purpose: 64 hex digits, the same on every
// server that has the secret.
func (s *Scheduler) token(purpose, id string) string {
	mac := hmac.New(sha256.New, s.Secret)
	fmt.Fprintf(mac, "%s %s", purpose, id)
	return hex.EncodeToString(mac.Sum(nil))
}

// secrets returns the values that must not come out of the agent's machine.
func (s *Scheduler) secrets(agentID string) map[string]string {
	secrets, _ := s.given.secretsOf(agentID)
	if s.Secrets == nil {
		return secrets
	}
	if secrets == nil {
		secrets = map[string]string{}
	}
	maps.Copy(secrets, s.Secrets(agentID))
	return secrets
}

// redact returns the option that removes the agent's secrets and the machine's
// own tokens from everything that the machine sends.
func (s *Scheduler) redact(state *agent.State, machineID string) pod.Option {
	return pod.Redact(s.redactor(state, machineID))
}

func (s *Scheduler) redactor(state *agent.State, machineID string) *redact.Redactor {
	return redact.New(s.values(state, machineID))
}

// values returns the secrets of an agent and of its machine, by name.
func (s *Scheduler) values(state *agent.State, machineID string) map[string]string {
	secrets := map[string]string{
		"the exec token": s.token("exec", machineID), "the git credential": s.token("git", state.Run.ID),
	}
	maps.Copy(secrets, s.secrets(state.Agent.ID))
	return secrets
}

// connection returns the options for every connection to the agent's machine.
func (s *Scheduler) connection(state *agent.State, machineID string) []pod.Option {
	return []pod.Option{s.redact(state, machineID), s.tokens(state.Agent.ID), s.spans(state, machineID), pod.TellExceeded(func(reason error) {
		s.Logger.Warn("ended the connection to a machine", "machine", machineID, "reason", reason)
	})}
}

// refuse stands in for a model that is not configured any more.
type refuse struct{ err error }

func (r refuse) Stream(context.Context, model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) { yield(model.Event{}, r.err) }
}
