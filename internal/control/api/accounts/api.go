// Package accounts is the part of the REST API for users and their settings:
// sign-in, members, keys, secrets, rules, and the team's settings.
package accounts

import (
	"context"
	"sync"
	"time"

	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/ledger"
	"aloft/internal/control/signin"
	"aloft/internal/control/store"
)

// Config holds the dependencies that only this package uses.
type Config struct {
	SignIn       *signin.Desk
	Usage        store.Usage
	Disk         DiskUsage
	DiskQuota    ledger.Size  // per user; 0 means no limit
	Environments Environments // nil means the environments of the API
	// MachineRetention is the maximum time for which the server keeps an idle
	// machine; 0 means no limit.
	MachineRetention time.Duration
	// CheckHooks returns an error if text is not a valid hooks.json.
	CheckHooks func(text []byte) error
}

// DiskUsage reports what uses the disk. Its methods are safe for concurrent
// use.
type DiskUsage interface {
	// Rows returns the rows of a user, or all rows if userID is 0, largest
	// first. If it fails, it returns the rows that it could determine, with the
	// error.
	Rows(ctx context.Context, userID int64) ([]ledger.Row, error)
	// Held returns what a user holds in the server, or everybody if userID is 0,
	// largest first.
	Held(userID int64) []ledger.Held
}

// API serves the accounts.
type API struct {
	*rest.Shared
	Config
	models   *modelchoice.API
	settling sync.Mutex // held while settings change
}

// New returns an API.
func New(s *rest.Shared, c Config, m *modelchoice.API) *API {
	return &API{Shared: s, Config: c, models: m}
}
