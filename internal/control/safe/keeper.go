package safe

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"gocloud.dev/secrets"

	"aloft/internal/fault"
)

// keeperTime is the timeout of a request to a keeper. It is short because a run
// is waiting.
const keeperTime = 20 * time.Second

// LocalKeeper is the URL of the keeper that uses a file in the data folder.
const LocalKeeper = "local"

// A Keeper encrypts (wraps) the data keys of values with a key that never
// leaves the keeper. Its methods are safe for concurrent use.
type Keeper interface {
	// Wrap encrypts a data key. It also returns the name of the wrapping key.
	Wrap(ctx context.Context, key []byte) (wrapped []byte, name string, err error)
	// Unwrap decrypts a data key. The error wraps [errNotMine] if another keeper
	// has wrapped it.
	Unwrap(ctx context.Context, name string, wrapped []byte) ([]byte, error)
}

// A Renewer is a [Keeper] that can rotate its own key. A key management service
// is not a Renewer: its operator rotates keys there.
type Renewer interface {
	// Renew creates a new wrapping key. Older keys can still unwrap.
	Renew() error
	// Forget removes the keys that are not in use, except the last two: a
	// concurrent encryption may still use the previous key.
	Forget(inUse map[string]bool) error
}

var errNotMine = errors.New("another keeper's")

// OpenKeeper opens the keeper at a URL: [LocalKeeper], whose keys are in file
// (created if needed), or a key management service with a linked driver:
// awskms, gcpkms, azurekeyvault or hashivault.
func OpenKeeper(ctx context.Context, rawURL, file string) (Keeper, error) {
	if rawURL == LocalKeeper {
		return openKeyFile(file)
	}
	u, err := url.Parse(rawURL)
	if err != nil || !slices.Contains([]string{"awskms", "gcpkms", "azurekeyvault", "hashivault"}, u.Scheme) {
		return nil, fmt.Errorf("%q is not the URL of a keeper: local, awskms://…, gcpkms://…, azurekeyvault://… or hashivault://…", redacted(rawURL))
	}
	if u.User != nil {
		return nil, fmt.Errorf("the URL of a keeper has no user or password: the service's own variables give them")
	}
	k, err := secrets.OpenKeeper(ctx, rawURL)
	if err != nil {
		return nil, fmt.Errorf("keeper %s: %w", rawURL, err)
	}
	return remote{rawURL, k}, nil
}

// redacted returns a form of an invalid URL that is safe to show.
func redacted(rawURL string) string {
	if len(rawURL) > 12 {
		return rawURL[:12] + "…"
	}
	return rawURL
}

// remote is a key management service.
type remote struct {
	name   string
	keeper *secrets.Keeper
}

func (r remote) Wrap(ctx context.Context, key []byte) ([]byte, string, error) {
	wrapped, err := r.ask(ctx, func(ctx context.Context) ([]byte, error) { return r.keeper.Encrypt(ctx, key) })
	return wrapped, r.name, err
}

func (r remote) Unwrap(ctx context.Context, name string, wrapped []byte) ([]byte, error) {
	if name != r.name {
		return nil, errNotMine
	}
	return r.ask(ctx, func(ctx context.Context) ([]byte, error) { return r.keeper.Decrypt(ctx, wrapped) })
}

// ask adds a timeout to a request, because some drivers ignore the context, and
// turns a driver's panic over an unexpected response into an error.
func (r remote) ask(ctx context.Context, do func(context.Context) ([]byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, keeperTime)
	defer cancel()
	type answer struct {
		data []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a = answer{err: errors.New("invalid response of the keeper")}
			}
			answers <- a
		}()
		a.data, a.err = do(ctx)
	}()
	a := answer{err: ctx.Err()}
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	}
	if a.err != nil {
		return nil, fault.Unavailable("the keeper of secrets %s failed", r.name).Named("keeper_unavailable").
			Hint("check that the server can reach it and may use its key, then try again").Because(a.err)
	}
	return a.data, nil
}
