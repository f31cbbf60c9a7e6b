// Package build makes environments ready: it finds out what the machine of an
// agent is to be made of, makes that once, and says what a machine starts from.
//
// What a repository says of its environment is read from the mirror, at the
// commit that the agent works on, before there is a machine; it is data of
// whoever wrote the repository, and does nothing but in the machine.
//
// A build is a machine in which the default branch is checked out and install
// has run, frozen into a layer. Its record is in the store before the machine is
// there, and says SUCCEEDED only once the layer is whole: whoever dies at
// whatever moment leaves a record that [Builder.Run] ends, and no layer that
// anything would start from.
package build

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/gateway"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/policy"
	"aloft/internal/secret"
)

// Config is what a Builder works with. Without Layers nothing is built: install
// then runs in each machine.
type Config struct {
	Files   Files
	Gateway Gateway
	Builds  store.Builds
	Saved   store.Environments // nil has none
	// Dockerfiles makes bases of Dockerfiles; nil makes none.
	Dockerfiles Dockerfiles
	// Snapshots says whose saved disks are; nil knows of none.
	Snapshots store.Snapshots
	Leases    store.Leases
	Owner     string // of leases: this server
	Runtime   machine.Runtime
	Layers    Layers
	Dir       string // for logs of builds
	Image     string // the default base
	// HaveImage makes an image ready, or says why it cannot be had; nil leaves
	// that to the runtime.
	HaveImage func(ctx context.Context, name string) error
	// Room is a fault where the disk is too full to build on; nil never asks.
	Room    func() error
	Class   string
	Limits  machine.Limits
	Network policy.Network
	// TeamEgress is what the team has settled by a time of what machines may reach;
	// nil is nothing, and so is a zero value.
	TeamEgress func(context.Context, time.Time) (agent.Egress, error)
	// MayReach returns a fault unless the user may run agents on a repository; nil
	// lets everybody reach all.
	MayReach func(ctx context.Context, userID int64, repoURL string) error
	// Secrets are values, by names, that must not be in a log.
	Secrets map[string]string
	// Variables returns what install finds in its environment, the hidden of
	// which must not be in a log either; nil gives nothing.
	Variables    func(ctx context.Context, environmentID string, repoURLs []string) (secret.Set, error)
	InstallLimit time.Duration // 1 h if 0
	// StaleAfter is how old a build may be before a use of it asks whether
	// another is due; 0 asks with every use.
	StaleAfter time.Duration
	// WatchEvery is how often the default branches of environments that are in use
	// are looked at for another environment; 0 is never.
	WatchEvery time.Duration
	// RebuildEvery is how old a build of an environment that is in use may be
	// before another is made if anything has changed; 0 is any age.
	RebuildEvery time.Duration
	// KeepBuilds is of how many builds of each environment the disk is kept, the
	// active one among them, for at most KeepFor, 0 being for ever: so long are
	// also the records of builds and their logs.
	KeepBuilds int
	KeepFor    time.Duration
	// SnapshotFor is how long a snapshot stays that no machine begins with; 0 is
	// for ever.
	SnapshotFor time.Duration
	// WreckFor is how long what a failed install has left can be looked at, and
	// WreckBytes how much of the disk all of that may take; 0 is no limit.
	WreckFor   time.Duration
	WreckBytes int64
	Logger     *slog.Logger
}

// Gateway is how git in a build's machine reaches its repository.
type Gateway interface {
	http.Handler
	Grant(g gateway.Grant) (credential string, err error)
	Revoke(credential string)
}

// Layers are the disks that machines have left: [layer.Store].
type Layers interface {
	Layer(id string) (layer.Layer, error)
	List() ([]layer.Layer, error)
	Delete(id string) error
	Size(ctx context.Context, id string) (int64, error)
}

// Builder makes environments ready. Its methods are safe for concurrent use.
type Builder struct {
	Config
	tidied chan struct{} // closed when what the dead have left is ended

	mu      sync.Mutex
	ctx     context.Context // of builds; nil until Run
	flights map[string]*flight
	ends    map[string]context.CancelCauseFunc // end the build in a machine, by its id
	wrecks  map[string]*wreck                  // that somebody looks at, by build
	saving  map[string]bool                    // snapshots whose disks are being made
	expired expired
	running sync.WaitGroup
	step    func(string) // between the steps of a build, for tests
}

// New makes a Builder. Run makes it build.
func New(c Config) *Builder {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.InstallLimit == 0 {
		c.InstallLimit = time.Hour
	}
	return &Builder{
		Config: c, tidied: make(chan struct{}), flights: map[string]*flight{}, ends: map[string]context.CancelCauseFunc{}, wrecks: map[string]*wreck{}, saving: map[string]bool{}, step: func(string) {},
	}
}

// Base is what a machine starts from.
type Base struct {
	Image   string
	Layer   string   // above the image; "" is none
	Install bool     // install has still to run in the machine
	Notes   []string // what people and the agent ought to know
}

// failedFor is how long a build that failed stands for the next of the same.
const failedFor = 10 * time.Minute

// Prepare says what a machine of the plan starts from. Where no build covers it
// and one can, it is made first, or waited for where somebody else makes it;
// tell hears how far it is. A build that fails is no error: the notes tell.
func (b *Builder) Prepare(ctx context.Context, p Plan, tell func(string)) (Base, error) {
	from, notes, err := b.from(ctx, p)
	if err != nil {
		return Base{}, err
	}
	base := Base{Image: from.image, Layer: from.layer, Install: p.Environment.Install != "", Notes: notes}
	if p.Commit == "" || !base.Install && !from.dockerfile {
		return b.withImage(ctx, base, from, p, tell)
	}
	if b.Layers == nil {
		return b.withImage(ctx, base, from, p, tell)
	}
	active, err := b.Builds.ActiveBuild(ctx, p.environmentID())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return base, err
	}
	there := err == nil && p.isOf(active) && b.stands(ctx, active.ID)
	if there {
		if there, err = b.mayStart(ctx, p, active); err != nil {
			return base, err
		}
	}
	if there && active.Digest == p.digest() && b.fits(active, from, p) {
		base.Image, base.Layer, base.Install = active.Image, active.ID, active.Inputs != p.Inputs
		if err := b.used(ctx, active); err != nil {
			return base, err
		}
		if !young(active.CheckedAt, b.StaleAfter) {
			b.refresh(p)
		}
		return base, nil
	}
	main, err := b.atDefault(ctx, p)
	if err != nil {
		return base, err
	}
	if main.digest() != p.digest() {
		base.Notes = append(base.Notes, "The environment differs from the default branch's, of which builds are made: what it asks for is done for this machine alone.")
		return b.withImage(ctx, base, from, p, tell)
	}
	made, err := b.Ensure(ctx, main, environment.ConfigChange, tell)
	if err != nil {
		return base, err
	}
	if made.Status == environment.Succeeded {
		base.Image, base.Layer, base.Install = made.Image, made.ID, made.Inputs != p.Inputs
		return base, nil
	}
	// What has just failed is not tried again in the machine: the agent is told.
	base.Install = base.Install && made.FailureType != environment.InstallFailed
	note := fmt.Sprintf("The environment could not be built (%s): %s", made.ID, made.Message)
	switch {
	case there && (!from.dockerfile || b.Dockerfiles.Has(active.Image)):
		base.Image, base.Layer = active.Image, active.ID
		note += "\nThe machine starts from the build before it, " + active.ID + "."
	case from.dockerfile && made.Image != "":
		base.Image = made.Image // of which only install has failed
	case from.dockerfile:
		base.Image = b.Image
		note += "\nThe machine starts from the default image."
	default: // its image may be what could not be had
		image, notes := b.imageOr(ctx, from.image)
		base.Image, base.Notes = image, append(base.Notes, notes...)
	}
	base.Notes = append(base.Notes, note)
	return base, nil
}

// withImage makes the image of a plan that no build is made of. One that cannot
// be made is no error: the notes tell.
func (b *Builder) withImage(ctx context.Context, base Base, from base, p Plan, tell func(string)) (Base, error) {
	if !from.dockerfile && from.layer != "" {
		return base, nil
	}
	if !from.dockerfile {
		image, notes := b.imageOr(ctx, from.image)
		base.Image, base.Notes = image, append(base.Notes, notes...)
		return base, nil
	}
	image, err := b.imageNow(ctx, p, tell)
	if err != nil && ctx.Err() != nil {
		return base, context.Cause(ctx)
	}
	if err != nil {
		image = b.Image
		base.Notes = append(base.Notes, noImage(err)+" The machine starts from the default image.")
	}
	base.Image = image
	return base, nil
}

// ofTheHost reports whether a machine would be made of files of this server: an
// operator may say so, and nobody else.
func ofTheHost(image string) bool {
	scheme, _, ok := strings.Cut(image, ":")
	return image == "host" || ok && (scheme == "rootfs" || scheme == "oci" || scheme == "local")
}

// refresh asks in the background whether another build is due.
func (b *Builder) refresh(p Plan) {
	b.mu.Lock()
	ctx := b.ctx
	_, busy := b.flights[p.environmentID()]
	if ctx == nil || busy || ctx.Err() != nil {
		b.mu.Unlock()
		return
	}
	b.running.Add(1)
	b.mu.Unlock()
	go func() {
		defer b.running.Done()
		main, err := b.atDefault(ctx, p)
		if err == nil && (main.Environment.Install != "" || main.dockerfile != "") && main.Commit != "" {
			_, err = b.Ensure(ctx, main, environment.Recurring, func(string) {})
		}
		if err != nil && ctx.Err() == nil {
			b.Logger.Warn("a stale environment cannot be built", "environment", p.environmentID(), "error", err)
		}
	}()
}
