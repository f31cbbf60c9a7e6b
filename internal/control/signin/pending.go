package signin

import (
	"crypto/rand"
	"sync"
	"time"

	"aloft/internal/fault"
)

// maxPending is how many things may be half done: each is some hundred bytes,
// and anybody may begin one.
const maxPending = 10_000

// pending keeps what is half done, each until it is taken, once. Its zero value
// is empty. It is safe for concurrent use.
type pending[T any] struct {
	mu  sync.Mutex
	all map[string]begun[T]
}

type begun[T any] struct {
	what T
	ends time.Time
}

// put keeps what for a while and returns its name, which nobody can guess.
func (p *pending[T]) put(what T, life time.Duration) (string, error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) >= maxPending {
		for name, b := range p.all {
			if now.After(b.ends) {
				delete(p.all, name)
			}
		}
		if len(p.all) >= maxPending {
			return "", fault.Exhausted("too many are signing in at once").Named("rate_limit_exceeded").Hint("try again in some minutes")
		}
	}
	if p.all == nil {
		p.all = map[string]begun[T]{}
	}
	name := rand.Text()
	p.all[name] = begun[T]{what, now.Add(life)}
	return name, nil
}

// take returns what was put under the name, once.
func (p *pending[T]) take(name string) (what T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.all[name]
	delete(p.all, name)
	return b.what, ok && time.Now().Before(b.ends)
}
