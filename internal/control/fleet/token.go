package fleet

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	"aloft/internal/agent"
	"aloft/internal/control/pod"
	"aloft/internal/redact"
)

// token derives the token for a purpose: 64 hex digits, the same on every
// server that has the secret.
func (f *Fleet) token(purpose, id string) string {
	mac := hmac.New(sha256.New, f.Secret)
	fmt.Fprintf(mac, "%s %s", purpose, id)
	return hex.EncodeToString(mac.Sum(nil))
}

// SecretsOf returns the secrets that must be redacted from the output of the
// agent's machine.
func (f *Fleet) SecretsOf(agentID string) map[string]string {
	secrets, _ := f.given.secretsOf(agentID)
	if f.Secrets == nil {
		return secrets
	}
	if secrets == nil {
		secrets = map[string]string{}
	}
	maps.Copy(secrets, f.Secrets(agentID))
	return secrets
}

// redact returns the option that removes the agent's secrets and the machine's
// own tokens from everything that the machine sends.
func (f *Fleet) redact(state *agent.State, machineID string) pod.Option {
	return pod.Redact(f.redactor(state, machineID))
}

func (f *Fleet) redactor(state *agent.State, machineID string) *redact.Redactor {
	return redact.New(f.values(state, machineID))
}

// values returns the secrets of an agent and of its machine, by name.
func (f *Fleet) values(state *agent.State, machineID string) map[string]string {
	secrets := map[string]string{
		"the exec token": f.token("exec", machineID), "the git credential": f.token("git", state.Run.ID),
	}
	maps.Copy(secrets, f.SecretsOf(state.Agent.ID))
	return secrets
}

// connection returns the options for every connection to the agent's machine.
func (f *Fleet) connection(state *agent.State, machineID string) []pod.Option {
	return []pod.Option{f.redact(state, machineID), f.tokens(state.Agent.ID), f.spans(state, machineID), f.embeddings(state, machineID), pod.Registries(f.pulls(state)), pod.TellExceeded(func(reason error) {
		f.Logger.Warn("ended the connection to a machine", "machine", machineID, "reason", reason)
	})}
}
