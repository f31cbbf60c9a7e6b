package gateway

import (
	"time"

	"aloft/internal/control/repourl"
)

// SetPushWait sets how long a push waits while the server unpacks others.
func SetPushWait(g *Gateway, d time.Duration) { g.pushWait = d }

// PathOf returns the path at which the gateway serves a repository.
func PathOf(repoURL string) (string, error) {
	r, err := repourl.Parse(repoURL)
	if err != nil {
		return "", err
	}
	return r.Path(), nil
}

// HoldLargePush occupies the slot of a large push until the returned function
// is called.
func HoldLargePush(g *Gateway) (end func()) {
	slots := g.unpacking[1].slots
	slots <- struct{}{}
	return func() { <-slots }
}

// AwaitNotes waits until the notes of all pushes are written.
func (g *Gateway) AwaitNotes() { g.noting.Wait() }
