// Package automations is the part of the REST API that defines automations,
// starts them, and shows their starts.
package automations

import (
	"context"
	"encoding/json"

	"aloft/internal/control/api/rest"
	"aloft/internal/control/automation"
	"aloft/internal/control/inbound"
	"aloft/internal/control/store"
)

// Desk starts automations. [automation.Desk] implements it. Its methods are safe
// for concurrent use.
type Desk interface {
	ByHand(ctx context.Context, a store.Automation, userID int64, cause string, inputs json.RawMessage, later bool) (store.AutomationStart, error)
	Promote(ctx context.Context, startID string) (store.AutomationStart, error)
	Stop(ctx context.Context, startID string) (store.AutomationStart, error)
	Try(ctx context.Context, a store.Automation, e *inbound.Event, inputs json.RawMessage) (automation.Trial, error)
}

// Config holds the dependencies that only this package uses.
type Config struct {
	Store store.Automations
	Desk  Desk
	// Event returns a received event whose body is still stored. The error wraps
	// [store.ErrNotFound] if there is none, and [store.ErrBodyGone] if the body
	// is no longer stored.
	Event func(ctx context.Context, id string) (inbound.Event, error) `needed:"no"` // nil if there are no connections
}

// API serves the automations.
type API struct {
	*rest.Shared
	Config
}

// New returns an API.
func New(s *rest.Shared, c Config) *API { return &API{s, c} }

// Lists for cursors.
const (
	automationList rest.List = "m"
	startList      rest.List = "t"
)
