package fleet

import (
	"aloft/internal/agent"
	"aloft/internal/control/pod"
)

// embeddings returns the option that answers requests for embeddings.
func (f *Fleet) embeddings(state *agent.State, machineID string) pod.Option {
	if f.Embeddings == nil {
		return pod.Embeddings(nil)
	}
	return pod.Embeddings(f.Embeddings.Handler(state.Agent.ID, func(text string) string {
		return f.redactor(state, machineID).String(text) // the secrets may have changed
	}))
}

// embeddingModel returns the name of the model for embeddings; "" for none.
func (f *Fleet) embeddingModel() string {
	if f.Embeddings == nil {
		return ""
	}
	return f.Embeddings.Name()
}
