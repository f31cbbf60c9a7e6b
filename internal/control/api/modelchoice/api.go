// Package modelchoice is the part of the REST API that lists models, and that checks
// the models and limits that requests name.
package modelchoice

import (
	"aloft/internal/allowance"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/model"
)

// Config holds the dependencies that only this package uses.
type Config struct {
	// Models are the models that a client may choose. DefaultModel is the id of
	// the model for requests that do not choose one.
	Models       []model.Info
	DefaultModel string
	Limit        allowance.Amount // per run; 0 means no limit of that kind
}

// API serves the models.
type API struct {
	*rest.Shared
	Config
}

// New returns an API.
func New(s *rest.Shared, c Config) *API { return &API{s, c} }

// Choices returns the models that agents can use.
func (s *API) Choices() agents.Models {
	return agents.Models{Rules: s.Rules, All: s.Models, Default: s.DefaultModel, Limit: s.Limit}
}
