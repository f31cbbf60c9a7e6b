// Package keylock locks keys, such as the ids of agents, within one process.
package keylock

import (
	"context"
	"sync"
)

// Locks is a set of locks, one for each key. Unused keys take no memory. The
// zero value is ready to use, and safe for concurrent use.
type Locks[K comparable] struct {
	mu   sync.Mutex
	used map[K]*lock
}

type lock struct {
	free  chan struct{} // contains a token unless the key is locked
	users int           // holders and waiters, guarded by Locks.mu
}

// Lock locks the key until unlock is called. Callers get the lock in the order of
// their calls. If ctx ends first, Lock returns its cause.
func (l *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	k := l.enter(key)
	select {
	case <-k.free:
	default:
		select {
		case <-k.free:
		case <-ctx.Done():
			l.leave(key, k)
			return nil, context.Cause(ctx)
		}
	}
	return func() {
		k.free <- struct{}{}
		l.leave(key, k)
	}, nil
}

func (l *Locks[K]) enter(key K) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.used[key]
	if k == nil {
		if l.used == nil {
			l.used = map[K]*lock{}
		}
		k = &lock{free: make(chan struct{}, 1)}
		k.free <- struct{}{}
		l.used[key] = k
	}
	k.users++
	return k
}

func (l *Locks[K]) leave(key K, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.used, key)
	}
}
