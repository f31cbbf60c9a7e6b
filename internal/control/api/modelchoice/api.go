// Package modelchoice is the part of the REST API that lists models, and that checks
// the models and limits that requests name.
package modelchoice

import (
	"aloft/internal/allowance"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/model"
)

// Config holds the parts of the server that only this package uses.
type Config struct {
	// Models are the models that a client may name. DefaultModel is the id of
	// the model for requests that name none.
	Models       []model.Info
	DefaultModel string
	Limit        allowance.Amount // for each run; 0 means no limit of that kind
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
