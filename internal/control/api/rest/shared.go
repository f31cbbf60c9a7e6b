// Package rest holds the code that the resources of the REST API share: the
// description of a route, reading and writing JSON, errors, pages of lists,
// idempotency keys, authentication, and replies that are streamed.
//
// [Shared] holds the parts of the server that most resources use. Each resource
// embeds it, and adds the parts that only it uses.
package rest

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"aloft/internal/control/agents"
	"aloft/internal/control/store"
	"aloft/internal/policy"
	"aloft/internal/secret"
)

// Shared holds the parts of the server that most resources of the API use. All
// are required except AllowFile, Quotas and TrustedProxies.
type Shared struct {
	Journal        store.Journal
	Agents         store.Agents
	Accounts       store.Accounts
	Rules          store.Rules
	Saved          store.Environments
	AuditLog       store.AuditLog
	Secrets        Secrets
	Work           Work
	Quotas         agents.Quotas  // per user; the zero value means no quotas
	AllowFile      bool           // allows file:// repositories
	TrustedProxies []netip.Prefix // proxies whose X-Forwarded-For is trusted; none by default
	PublicURL      func() string  // the server's URL for browsers, without a trailing slash
	URLSecret      []byte         // signs artifact URLs, and encrypts stored replies
	Logger         *slog.Logger
	// Patience is how long a streamed reply waits for a slow reader; 0 means 30
	// seconds.
	Patience time.Duration
}

// Work is the part of the scheduler and of the fleet that the API uses. Its methods
// are safe for concurrent use.
type Work interface {
	// Wake tells the scheduler that the agent's journal has a new run or a
	// request to cancel one. It returns at once.
	Wake(agentID string)
	// Remove stops the agent's run and destroys its machine. It also succeeds
	// if the agent has neither. The API calls it to archive or delete an agent,
	// and again after a failure.
	Remove(ctx context.Context, agentID string) error
	// Forget removes what the fleet stores for an agent that is being
	// deleted.
	Forget(ctx context.Context, agentID string) error
	// Diff returns the agent's changes since its starting ref.
	Diff(ctx context.Context, agentID string) (diff string, truncated bool, err error)
	// DialPort connects to a TCP port in the agent's machine. The returned
	// connection has a CloseWrite method.
	DialPort(ctx context.Context, agentID string, port uint16) (net.Conn, error)
	// Connections returns the machine's open outbound connections, and at most
	// limit closed ones whose number is greater than after.
	Connections(ctx context.Context, agentID string, after uint64, limit int) (policy.Connections, error)
}

// Timeouts and size limits.
const (
	HeartbeatEvery = 15 * time.Second
	ReplyWithin    = 60 * time.Second // timeout for a request that is not a stream
	readWithin     = 5 * time.Minute  // timeout for a body, which may contain images and arrive over a slow line
	WriteWithin    = 30 * time.Second // timeout for one piece of a stream
	MaxBody        = 110 << 20        // five images of 15 MiB in base64, and some text
	Batch          = 100              // events per read
)

// Secrets stores secrets. Its methods are safe for concurrent use, and their
// errors are faults that never contain a value.
type Secrets interface {
	agents.Secrets
	// Put stores the secret, replacing the owner's secret of the same name.
	Put(ctx context.Context, s secret.Secret, value string) (secret.Secret, error)
	Delete(ctx context.Context, owner secret.Owner, name string) error
	// DeleteAll deletes all secrets of the owner, if any.
	DeleteAll(ctx context.Context, owner secret.Owner) error
	// Rotate encrypts every secret with the new key, and returns the number of
	// secrets.
	Rotate(ctx context.Context) (int, error)
	// ExternalID returns the external ID for the trust policies of the team's
	// AWS roles.
	ExternalID(ctx context.Context) (string, error)
}
