// Package safe keeps secrets: it seals their values before the store sees them,
// and opens them for the machines that may have them. Each value is encrypted
// with a key of its own, and that key by a keeper: a file in the data folder, or
// a key management service. Nothing here tells a value to anybody but a machine.
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

// Config is what a safe works with.
type Config struct {
	Store store.Secrets
	// Keepers open what is sealed; the first seals.
	Keepers []Keeper
	// Roles assumes AWS roles for machines; nil where the server has no AWS
	// credentials of its own.
	Roles Roles
	// Environment returns the id of the agent's environment, "" for none; nil
	// where there are no environments.
	Environment func(context.Context, agent.Agent) (string, error)
}

// Roles assumes AWS roles. Its methods are safe for concurrent use.
type Roles interface {
	// Assume returns credentials of the role, and until when they are good. The
	// error is a fault.
	Assume(ctx context.Context, arn, externalID, session string) (Credentials, error)
}

// Credentials are temporary ones of AWS.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
	Until                                      time.Time
}

// Safe keeps secrets. Its methods are safe for concurrent use.
type Safe struct {
	Config
	rotating sync.Mutex
}

// New returns a safe over the store.
func New(c Config) (*Safe, error) {
	if c.Store == nil || len(c.Keepers) == 0 {
		return nil, errors.New("safe: a store and a keeper are needed")
	}
	return &Safe{Config: c}, nil
}

// Put keeps the secret in place of its owner's of that name, and returns it as
// it is kept.
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
		return of, fault.Exhausted("there are %d secrets already, which is as many as can be", secret.MaxPerOwner).Named("secret_limit_reached").Hint("delete what is not used")
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

// DeleteAll removes all of the owner's secrets: an environment that is deleted
// takes its own along.
func (s *Safe) DeleteAll(ctx context.Context, owner secret.Owner) error {
	return s.Store.DeleteSecrets(ctx, owner)
}

// SealEnvVars seals the envVars of a new agent, for the append that makes it.
func (s *Safe) SealEnvVars(ctx context.Context, agentID string, vars map[string]string) ([]secret.Sealed, error) {
	if err := secret.CheckEnvVars(vars); err != nil {
		return nil, err
	}
	return s.sealAll(ctx, secret.Owner{Kind: secret.OfAgent, ID: agentID}, vars)
}

// sealAll seals values, by name, as an owner's.
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

// atOnce is how many requests to a keeper are under way for one caller.
const atOnce = 8

// Rotate seals every secret anew: with a fresh key of its own, wrapped by the
// first keeper, which makes a new key before where it can. It returns how many
// it has sealed. It may be stopped anywhere, and done again: whatever is in the
// store can be opened meanwhile and afterwards.
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
				continue // it was replaced or deleted meanwhile
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
	// What was put meanwhile may be under an older key.
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

// ExternalID is what the trust policy of the team's AWS roles asks for.
func (s *Safe) ExternalID(ctx context.Context) (string, error) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return s.Store.ExternalID(ctx, secret.TheTeam.ID, "aloft-"+hex.EncodeToString(b[:]))
}
