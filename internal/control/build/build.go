// Package build prepares environments: it determines what an agent's machine
// should contain, builds its disk once, and returns the base that a machine
// starts from.
//
// The environment file is read from the mirror, at the commit that the agent
// works on, before a machine exists. Its content is untrusted and takes effect
// only inside the machine.
//
// A build is a machine in which the default branch is checked out and install
// has run, frozen into a layer. Its record is stored before the machine is
// created, and becomes SUCCEEDED only when the layer is complete. So after a
// crash at any time, [Builder.Run] finds and closes the record, and no machine
// can start from an incomplete layer.
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
	"aloft/internal/control/pullthrough"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/policy"
	"aloft/internal/secret"
)

// Config holds the dependencies and settings of a Builder. Without Layers there
// are no builds, and install runs in each machine.
type Config struct {
	Files   Files
	Gateway Gateway
	Builds  store.Builds
	Saved   store.Environments // nil means that there are no saved environments
	// Journal returns the content of environments at the time when agents were
	// created, or nil if it is unknown.
	Journal interface {
		Read(ctx context.Context, agentID string, after int64, limit int) ([]agent.Event, error)
	}
	// Dockerfiles builds images of Dockerfiles; nil means that none are built.
	Dockerfiles Dockerfiles
	// Snapshots holds the records of saved disks; nil means that there are none.
	Snapshots store.Snapshots
	Leases    store.Leases
	Owner     string // this server's name on its leases
	Runtime   machine.Runtime
	Layers    Layers
	Dir       string // folder of build logs
	Image     string // the default image
	// HaveImage makes an image available, or returns why it cannot; nil leaves
	// that to the runtime.
	HaveImage func(ctx context.Context, name string) error
	// Room returns a fault when the disk is too full to build; nil disables the
	// check.
	Room    func() error
	Class   string
	Limits  machine.Limits
	Network policy.Network
	// TeamEgress returns the team's network policy at a point in time. If it is
	// nil or returns the zero value, the team has set none.
	TeamEgress func(context.Context, time.Time) (agent.Egress, error)
	// MayReach returns a fault unless the user may run agents on a repository;
	// nil allows everybody everything.
	MayReach func(ctx context.Context, userID int64, repoURL string) error
	// Registries are those from which the Docker of machines pulls with the
	// server's credentials; nil means none.
	Registries *pullthrough.Server
	// Secrets are values, by name, to redact from logs.
	Secrets map[string]string
	// Variables returns the environment variables of install, whose hidden values
	// are redacted from logs too; nil means none.
	Variables    func(ctx context.Context, environmentID string, repoURLs []string) (secret.Set, error)
	InstallLimit time.Duration // timeout of install; 1 h if 0
	// StaleAfter is the minimum time between two checks of whether a build must
	// be rebuilt. The first use of the build after that time checks again; 0
	// checks on every use.
	StaleAfter time.Duration
	// WatchEvery is the interval of checking the default branches for changes
	// to the environments in use; 0 means never.
	WatchEvery time.Duration
	// RebuildEvery is the age at which a build in use is rebuilt if anything in
	// its repositories has changed; 0 means that age does not matter.
	RebuildEvery time.Duration
	// KeepBuilds is how many builds of each environment are kept with disk,
	// record and log, including the active build. They are kept for at most
	// KeepFor; 0 means that they are kept forever.
	KeepBuilds int
	KeepFor    time.Duration
	// SnapshotFor is how long a snapshot is kept after its last use; 0 means
	// forever.
	SnapshotFor time.Duration
	// FailedBuildsFor is how long the machine of a failed install is kept for
	// inspection, and FailedBuildsBytes how much disk space all of them may use; 0 means
	// no limit.
	FailedBuildsFor   time.Duration
	FailedBuildsBytes int64
	Logger            *slog.Logger
}

// Gateway gives git in a build's machine access to its repositories.
type Gateway interface {
	http.Handler
	Grant(g gateway.Grant) (credential string, err error)
	Revoke(credential string)
}

// Layers are the saved disks of machines: [layer.Store].
type Layers interface {
	Layer(id string) (layer.Layer, error)
	List() ([]layer.Layer, error)
	Delete(id string) error
	Size(ctx context.Context, id string) (int64, error)
}

// Builder builds environments. Its methods are safe for concurrent use.
type Builder struct {
	Config
	tidied chan struct{} // closed once leftovers of earlier servers have been cleaned up

	mu      sync.Mutex
	ctx     context.Context // context of builds; nil until Run
	flights map[string]*runningBuild
	ends    map[string]context.CancelCauseFunc // cancels the build in a machine, by machine id
	failed  map[string]*failedBuild            // failed machines with visitors, by build id
	saving  map[string]bool                    // snapshots being saved, by id
	expired expired
	running sync.WaitGroup
	step    func(string) // called between the steps of a build, for tests
}

// New returns a Builder. It builds once Run has been called.
func New(c Config) *Builder {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.InstallLimit == 0 {
		c.InstallLimit = time.Hour
	}
	return &Builder{
		Config: c, tidied: make(chan struct{}), flights: map[string]*runningBuild{}, ends: map[string]context.CancelCauseFunc{}, failed: map[string]*failedBuild{}, saving: map[string]bool{}, step: func(string) {},
	}
}

// Base is the base that a machine starts from.
type Base struct {
	Image   string
	Layer   string   // layer on top of the image, or "" for none
	Install bool     // install still has to run in the machine
	Notes   []string // messages for users and the agent
}

// failedFor is how long after a failed build no other build of the same
// environment is started.
const failedFor = 10 * time.Minute

// Prepare returns the base of the plan's machine. If no build fits, Prepare
// makes one if possible, or waits for the build in progress; tell receives
// progress messages. A failed build is not an error: the notes describe it.
func (b *Builder) Prepare(ctx context.Context, p Plan, tell func(string)) (Base, error) {
	from, notes, err := b.baseOf(ctx, p)
	if err != nil {
		return Base{}, err
	}
	base := Base{Image: from.image, Layer: from.layer, Install: p.Environment.Install != "", Notes: notes}
	if p.Commit == "" || !base.Install && !from.dockerfile {
		return b.withImage(ctx, base, from, p, tell)
	}
	if b.Layers == nil || p.deleted {
		return b.withImage(ctx, base, from, p, tell)
	}
	active, err := b.Builds.ActiveBuild(ctx, p.environmentID())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return base, err
	}
	there := err == nil && p.isOf(active) && b.isAvailable(ctx, active.ID)
	if there {
		if there, err = b.mayStart(ctx, p, active); err != nil {
			return base, err
		}
	}
	if there && active.Digest == p.digest() && b.isMadeOn(active, from, p) {
		base.Image, base.Layer, base.Install = active.Image, active.ID, active.Inputs != p.Inputs
		if err := b.recordUse(ctx, active); err != nil {
			return base, err
		}
		if !isYoung(active.CheckedAt, b.StaleAfter) {
			b.refresh(p)
		}
		return base, nil
	}
	main, err := b.atDefault(ctx, p)
	if err != nil {
		return base, err
	}
	if main.digest() != p.digest() {
		base.Notes = append(base.Notes, "The environment differs from the default branch's, for which builds are made, so it is set up for this machine only.")
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
	// Do not repeat an install that has just failed: tell the agent instead.
	base.Install = base.Install && made.FailureType != environment.InstallFailed
	note := fmt.Sprintf("The environment could not be built (%s): %s", made.ID, made.Message)
	switch {
	case there && (!from.dockerfile || b.Dockerfiles.Has(active.Image)):
		base.Image, base.Layer = active.Image, active.ID
		note += "\nThe machine starts from the previous build, " + active.ID + "."
	case from.dockerfile && made.Image != "":
		base.Image = made.Image // the image was fine; only install failed
	case from.dockerfile:
		base.Image = b.Image
		note += "\nThe machine starts from the default image."
	default: // the image itself may be the cause
		image, notes := b.imageOr(ctx, from.image)
		base.Image, base.Notes = image, append(base.Notes, notes...)
	}
	base.Notes = append(base.Notes, note)
	return base, nil
}

// withImage builds the Dockerfile's image for a plan that has no build. A
// failure is not an error: the notes describe it.
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

// ofTheHost reports whether an image consists of files of this server. Only an
// operator may choose such an image.
func ofTheHost(image string) bool {
	scheme, _, ok := strings.Cut(image, ":")
	return image == "host" || strings.HasPrefix(image, "host@") || ok && (scheme == "rootfs" || scheme == "oci" || scheme == "local")
}

// refresh checks in the background whether another build is due.
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
			b.Logger.Warn("cannot rebuild a stale environment", "environment", p.environmentID(), "error", err)
		}
	}()
}
