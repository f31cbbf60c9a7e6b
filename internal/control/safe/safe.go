// Package safe encrypts secrets before the store sees them, and decrypts them
// for machines that may use them. Each value is encrypted with its own data
// key, which a keeper wraps: a file in the data folder, or a key management
// service. Values are revealed to machines only.
package safe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// Config holds the dependencies of a [Safe].
type Config struct {
	Store store.Secrets
	// Keepers decrypt data keys; the first one also encrypts.
	Keepers []Keeper
	// Roles assumes AWS roles for machines; nil if the server has no AWS
	// credentials.
	Roles Roles
	// Environment returns the id of the agent's environment, or "" if it has
	// none. Environment is nil if the server has no environments.
	Environment func(context.Context, agent.Agent) (string, error)
}

// Roles assumes AWS roles. Its methods are safe for concurrent use.
type Roles interface {
	// Assume returns credentials of the role with their expiry. The error is a
	// fault.
	Assume(ctx context.Context, arn, externalID, session string) (Credentials, error)
}

// Credentials are temporary AWS credentials.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
	Until                                      time.Time
}

// Safe encrypts and decrypts secrets. Its methods are safe for concurrent use.
type Safe struct {
	Config
	rotating sync.Mutex
}

// New returns a safe that uses the store.
func New(c Config) (*Safe, error) {
	if c.Store == nil || len(c.Keepers) == 0 {
		return nil, errors.New("safe: a store and a keeper are required")
	}
	return &Safe{Config: c}, nil
}

// Put stores the secret, replacing the owner's secret with the same name, and
// returns the stored form.
func (s *Safe) Put(ctx context.Context, of secret.Secret, value string) (secret.Secret, error) {
	for i, r := range of.Repos {
		of.Repos[i] = secret.Repo(r)
	}
	slices.Sort(of.Repos)
	of.Repos = slices.Compact(of.Repos)
	if err := secret.Check(of, value); err != nil {
		return of, err
	}
	of.ID, of.CreatedAt = secret.NewID(), time.Now().UTC().Truncate(time.Millisecond)
	sealed, err := s.seal(ctx, of, value)
	if err != nil {
		return of, err
	}
	switch err := s.Store.PutSecret(ctx, sealed); {
	case errors.Is(err, store.ErrExists):
		return of, fault.Conflict("there is a secret whose name differs from %s only in case", of.Name).Named("secret_name_conflict").
			At("name").Hint("delete that one first, or use its name")
	case errors.Is(err, store.ErrTooMany):
		return of, fault.Exhausted("the limit of %d secrets is reached", secret.MaxPerOwner).Named("secret_limit_reached").Hint("delete what is not used")
	case err != nil:
		return of, err
	}
	return of, nil
}

// List returns the owners' secrets, without values, newest first.
func (s *Safe) List(ctx context.Context, owners ...secret.Owner) ([]secret.Secret, error) {
	sealed, err := s.all(ctx, owners...)
	if err != nil {
		return nil, err
	}
	list := make([]secret.Secret, len(sealed))
	for i := range sealed {
		list[i] = sealed[i].Secret
	}
	slices.SortFunc(list, func(a, b secret.Secret) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		if a.ID > b.ID {
			return -1
		}
		return 1
	})
	return list, nil
}

func (s *Safe) all(ctx context.Context, owners ...secret.Owner) ([]secret.Sealed, error) {
	var all []secret.Sealed
	for _, o := range owners {
		some, err := s.Store.Secrets(ctx, o)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Delete removes the owner's secret of that name.
func (s *Safe) Delete(ctx context.Context, owner secret.Owner, name string) error {
	if err := secret.CheckName(name); err != nil {
		return err
	}
	err := s.Store.DeleteSecret(ctx, owner, name)
	if errors.Is(err, store.ErrNotFound) {
		return fault.NotFound("there is no secret %s", name).Named("secret_not_found")
	}
	return err
}

// DeleteAll removes all of the owner's secrets, for example when an environment
// is deleted.
func (s *Safe) DeleteAll(ctx context.Context, owner secret.Owner) error {
	return s.Store.DeleteSecrets(ctx, owner)
}

// SealEnvVars encrypts the envVars of a new agent, as part of the append that
// creates it.
func (s *Safe) SealEnvVars(ctx context.Context, agentID string, vars map[string]string) ([]secret.Sealed, error) {
	if err := secret.CheckEnvVars(vars); err != nil {
		return nil, err
	}
	return s.sealAll(ctx, secret.Owner{Kind: secret.OfAgent, ID: agentID}, vars)
}

// sealAll encrypts an owner's values by name.
func (s *Safe) sealAll(ctx context.Context, owner secret.Owner, vars map[string]string) ([]secret.Sealed, error) {
	names := slices.Sorted(maps.Keys(vars))
	sealed := make([]secret.Sealed, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, name := range names {
		group.Go(func() (err error) {
			sealed[i], err = s.seal(ctx, secret.Secret{
				ID: secret.NewID(), Name: name, Type: secret.Runtime, CreatedAt: time.Now().UTC().Truncate(time.Millisecond),
				Owner: owner,
			}, vars[name])
			return err
		})
	}
	return sealed, group.Wait()
}

// atOnce is the number of concurrent requests to a keeper per call.
const atOnce = 8

// Rotate encrypts every secret again with a new data key, which the first
// keeper wraps. If the keeper is a [Renewer], Rotate first creates a new
// wrapping key. It returns the number of secrets. It may be interrupted and
// repeated: all secrets in the store can be decrypted at any time.
func (s *Safe) Rotate(ctx context.Context) (n int, err error) {
	s.rotating.Lock()
	defer s.rotating.Unlock()
	renewer, renews := s.Keepers[0].(Renewer)
	if renews {
		if err := renewer.Renew(); err != nil {
			return 0, fmt.Errorf("make a new key: %w", err)
		}
	}
	inUse := map[string]bool{}
	const batch = 100
	for after := ""; ; {
		some, err := s.Store.SecretsAfter(ctx, after, batch)
		if err != nil {
			return n, err
		}
		for _, old := range some {
			after = old.ID
			fresh, err := s.resealed(ctx, old)
			if errors.Is(err, store.ErrNotFound) {
				continue // the secret was replaced or deleted meanwhile
			}
			if err != nil {
				return n, err
			}
			inUse[fresh.Keeper] = true
			n++
		}
		if len(some) < batch {
			break
		}
	}
	// Secrets that were stored meanwhile may still use an older key.
	for after := ""; ; {
		some, err := s.Store.SecretsAfter(ctx, after, batch)
		if err != nil {
			return n, err
		}
		for _, one := range some {
			after, inUse[one.Keeper] = one.ID, true
		}
		if len(some) < batch {
			break
		}
	}
	if renews {
		err = renewer.Forget(inUse)
	}
	return n, err
}

func (s *Safe) resealed(ctx context.Context, old secret.Sealed) (secret.Sealed, error) {
	value, err := s.open(ctx, old)
	if err != nil {
		return old, err
	}
	fresh, err := s.seal(ctx, old.Secret, value)
	if err != nil {
		return old, err
	}
	return fresh, s.Store.Reseal(ctx, fresh)
}

// ExternalID returns the external ID that the trust policies of the team's AWS
// roles require.
func (s *Safe) ExternalID(ctx context.Context) (string, error) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand crashes the process instead
	return s.Store.ExternalID(ctx, secret.TheTeam.ID, "aloft-"+hex.EncodeToString(b[:]))
}
