package mcp

import (
	"strconv"
	"sync"
)

// maxChallenges is how many refusals are kept.
const maxChallenges = 1000

// challenges holds the last refusal of each server for each user, until the user
// has signed in: a server may name the scopes that it requires only when it
// refuses a call. They are lost when the server restarts; a sign-in then begins
// with what the server asks of everybody. The zero value is ready to use.
type challenges struct {
	mu   sync.Mutex
	last map[string]*Unauthorized
}

func (c *challenges) set(userID int64, key string, u *Unauthorized) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := strconv.FormatInt(userID, 10) + " " + key
	if u == nil {
		delete(c.last, of)
		return
	}
	if c.last == nil {
		c.last = map[string]*Unauthorized{}
	}
	for other := range c.last { // evict in random order
		if len(c.last) < maxChallenges {
			break
		}
		delete(c.last, other)
	}
	c.last[of] = u
}

func (c *challenges) get(userID int64, key string) *Unauthorized {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[strconv.FormatInt(userID, 10)+" "+key]
}
