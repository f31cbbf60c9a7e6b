// Package follow lets agents follow the pull requests that they have opened. It
// learns from events and by polling that a pull request may have changed, reads
// the pull request at its forge, and starts a follow-up run with what is new.
package follow

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/inbound"
	"aloft/internal/control/store"
)

// Store is the part of the store that a desk uses.
type Store interface {
	store.PullWatches
}

// Config is what a desk needs. All fields but Logger are required.
type Config struct {
	Store  Store
	Forges forge.Set
	Gather time.Duration // how long after an event a pull request is read
	Logger *slog.Logger
}

// Desk follows pull requests. Its methods are safe for concurrent use.
type Desk struct {
	Config
}

// New returns a desk.
func New(c Config) *Desk {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Desk{Config: c}
}

// access is a forge that tells who may write to a repository.
type access interface {
	MayWrite(ctx context.Context, r forge.Repo, login string) (bool, error)
}

// Changed implements [inbound.Handler]: it schedules the reading of the pull
// requests that the event is about.
func (d *Desk) Changed(ctx context.Context, c inbound.Change) error {
	all, err := d.Store.PullsOf(ctx, strings.ToLower(c.Repo.String()))
	if err != nil {
		return err
	}
	about := func(w store.PullWatch) bool {
		switch {
		case c.Number > 0:
			return w.Number == c.Number
		case c.Branch != "":
			return w.Branch == c.Branch
		}
		return true // only the commit is known: the reading finds out
	}
	all = slices.DeleteFunc(all, func(w store.PullWatch) bool { return !about(w) })
	if len(all) == 0 {
		return inbound.Ignored(fmt.Sprintf("no agent has an open pull request for this in %s", c.Repo))
	}
	if why, err := d.outsider(ctx, c); err != nil || why != "" {
		return cmp.Or(err, error(inbound.Ignored(why)))
	}
	due := time.Now().Add(d.Gather)
	for _, w := range all {
		if err := d.Store.TellPull(ctx, w.AgentID, w.URL, due); err != nil {
			return err
		}
	}
	return nil
}

// outsider returns why the author of a comment is not listened to, or "".
func (d *Desk) outsider(ctx context.Context, c inbound.Change) (string, error) {
	if c.Kind != inbound.Comment || c.Actor == "" {
		return "", nil
	}
	if c.Bot {
		return fmt.Sprintf("%s is a bot", c.Actor), nil
	}
	f, r, err := d.Forges.Find(c.Repo)
	if err != nil {
		return "", err
	}
	a, ok := f.(access)
	if !ok {
		return "", nil // the reading ignores the comment
	}
	may, err := a.MayWrite(ctx, r, c.Actor)
	if err != nil || may {
		return "", err
	}
	return fmt.Sprintf("%s may not write to %s", c.Actor, r), nil
}
