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

// keeperTime bounds one request to a keeper: a run waits for it.
const keeperTime = 20 * time.Second

// LocalKeeper is the URL of the keeper that is a file in the data folder.
const LocalKeeper = "local"

// A Keeper has a key that does not leave it, and with it wraps the keys of
// values. Its methods are safe for concurrent use.
type Keeper interface {
	// Wrap encrypts a key, and says by what name the wrapping key is known.
	Wrap(ctx context.Context, key []byte) (wrapped []byte, name string, err error)
	// Unwrap is the inverse. The error wraps [errNotMine] where another keeper
	// has wrapped it.
	Unwrap(ctx context.Context, name string, wrapped []byte) ([]byte, error)
}

// A Renewer is a [Keeper] whose key is made by Aloft. The keys of a key
// management service are renewed there.
type Renewer interface {
	// Renew makes a new key, which wraps from now on; older ones still unwrap.
	Renew() error
	// Forget removes the keys that are not in use, but not the last two: what is
	// being sealed just now may still be under the one before the last.
	Forget(inUse map[string]bool) error
}

var errNotMine = errors.New("another keeper's")

// OpenKeeper opens the keeper at the URL: [LocalKeeper] with its keys in the
// file, which is made where it is missing, or that of a key management service
// whose driver is linked in: awskms, gcpkms, azurekeyvault, hashivault.
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

// redacted is what a URL that cannot be read may be told as.
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

// ask bounds the request, since not every driver heeds its context, and makes
// the panic of a driver that got an unforeseen answer an error.
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
				a = answer{err: errors.New("the keeper's answer makes no sense")}
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
		return nil, fault.Unavailable("the keeper of secrets %s does not do its work", r.name).Named("keeper_unavailable").
			Hint("see that the server reaches it and may use its key, then try again").Because(a.err)
	}
	return a.data, nil
}
