package sqlite

import (
	"context"
	"sync"

	"aloft/internal/account"
)

// maxCached bounds the entries of a cache. A full cache is emptied.
const maxCached = 10_000

// cache caches rows of small tables that every tool call reads and that rarely
// change. It is never stale, because no other process writes to the database:
// see [Lock]. Its zero value is ready, and its methods are safe for concurrent
// use.
type cache[K comparable, V any] struct {
	mu      sync.Mutex
	values  map[K]V
	changes int // number of changes of the table since the start
}

// get returns the value of key. If it is not cached, get calls read. It does
// not cache errors.
func (c *cache[K, V]) get(key K, read func() (V, error)) (V, error) {
	c.mu.Lock()
	v, ok := c.values[key]
	changes := c.changes
	c.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := read()
	if err != nil {
		return v, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if changes != c.changes {
		return v, nil // the value may have been read before the change
	}
	if c.values == nil || len(c.values) >= maxCached {
		c.values = map[K]V{}
	}
	c.values[key] = v
	return v, nil
}

// clear empties the cache after a change of the table.
func (c *cache[K, V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.values = nil
}

// ruleKey is the key of the table of rules.
type ruleKey struct{ owner, name string }

// Rule implements [store.Rules].
func (s *Store) Rule(ctx context.Context, owner, name string) (string, error) {
	return s.rules.get(ruleKey{owner, name}, func() (string, error) { return s.Store.Rule(ctx, owner, name) })
}

// SetRule implements [store.Rules].
func (s *Store) SetRule(ctx context.Context, owner, name, text string) error {
	defer s.rules.clear()
	return s.Store.SetRule(ctx, owner, name, text)
}

// User implements [store.Accounts].
func (s *Store) User(ctx context.Context, id int64) (account.User, error) {
	return s.users.get(id, func() (account.User, error) { return s.Store.User(ctx, id) })
}

// UpdateUser implements [store.Accounts].
func (s *Store) UpdateUser(ctx context.Context, id int64, change func(*account.User) error) (account.User, error) {
	defer s.users.clear()
	return s.Store.UpdateUser(ctx, id, change)
}
