package build

import (
	"context"
	"errors"
	"time"

	"aloft/internal/control/layer"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// base is what a machine starts from before install has run.
type base struct {
	image string
	layer string // a snapshot on top of the image, or "" for none
	// dockerfile means that the plan's Dockerfile must be built, so image is
	// unset.
	dockerfile bool
}

// baseOf returns the base of the plan's environment. If a base is unavailable,
// the notes say so and baseOf uses the next one.
func (b *Builder) baseOf(ctx context.Context, p Plan) (of base, notes []string, err error) {
	e := p.Environment
	if e.Base() == environment.BaseSnapshot {
		l, err := b.snapshot(ctx, p)
		if err != nil {
			return base{}, nil, err
		}
		if l.ID != "" && b.isAvailable(ctx, l.ID) {
			if err := b.usedSnapshot(ctx, l.ID); err != nil {
				return base{}, nil, err
			}
			return base{image: l.Image, layer: l.ID}, nil, nil
		}
		why := " does not exist, has expired, belongs to another repository, or belongs to another member and is not published"
		if l.ID != "" {
			why = " is based on the image " + l.Content() + ", which is unavailable"
		}
		notes = append(notes, "The snapshot "+e.Snapshot+why+". The machine starts from the next base instead.")
		e = e.WithoutSnapshot()
	}
	switch e.Base() {
	case environment.BaseImage:
		if ofTheHost(e.Image) {
			notes = append(notes, "The image "+e.Image+" is on the server's own disk, which a repository must not refer to. The machine starts from the default image.")
			break
		}
		return base{image: e.Image}, notes, nil
	case environment.BaseDockerfile:
		if p.dockerfile != "" {
			return base{dockerfile: true}, notes, nil
		}
		why := p.noImage
		if why == nil {
			why = errNoCommit
		}
		notes = append(notes, noImage(why)+" The machine starts from the default image.")
	case environment.BaseSnapshot, environment.BaseDefault:
	}
	return base{image: b.Image}, notes, nil
}

var errNoCommit = fault.Conflict("the repository has no commit yet")

// noImage says why a Dockerfile has no image and what to do about it.
func noImage(why error) string {
	f := fault.Of(why)
	words := "The image of the Dockerfile is unavailable: " + f.Message
	if f.Advice != "" {
		words += " (" + f.Advice + ")"
	}
	return words + "."
}

// haveImage makes an image available, or returns why it cannot.
func (b *Builder) haveImage(ctx context.Context, name string) error {
	if b.HaveImage == nil {
		return nil
	}
	return b.HaveImage(ctx, name)
}

// imageOr returns the image name if it is available. Otherwise it returns the
// default image and a note that says why.
func (b *Builder) imageOr(ctx context.Context, name string) (image string, notes []string) {
	if name == b.Image {
		return name, nil // no other image to fall back to
	}
	err := b.haveImage(ctx, name)
	if err == nil || ctx.Err() != nil {
		return name, nil
	}
	return b.Image, []string{"The image " + name + " is unavailable: " + messageOf(err) + ". The machine starts from the default image."}
}

// isAvailable reports whether a layer and the image below it are available.
func (b *Builder) isAvailable(ctx context.Context, id string) bool {
	l, err := b.Layers.Layer(id)
	return err == nil && b.haveImage(ctx, l.Content()) == nil
}

// usedSnapshot records that a machine is about to start from a snapshot, for
// its last-used time.
func (b *Builder) usedSnapshot(ctx context.Context, id string) error {
	n, err := b.Snapshots.Snapshot(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (isYoung(n.CreatedAt, usedStep) || isYoung(n.UsedAt, usedStep)) {
		return nil // an operator's snapshot has no record; other records may be recent enough
	}
	if err != nil {
		return err
	}
	if err := b.Snapshots.UseSnapshot(ctx, id, time.Now()); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// maxSnapshots limits how many snapshots are searched for the newest one.
const maxSnapshots = 100

// snapshot finds the snapshot that the plan's environment names. The snapshot
// must be of the same repository, and either belong to the user or be published
// by an admin. A snapshot that the operator exported or imported is open to
// everybody who knows its name. If there is no such snapshot, the layer has no
// ID.
func (b *Builder) snapshot(ctx context.Context, p Plan) (layer.Layer, error) {
	if b.Layers == nil || b.Snapshots == nil {
		return layer.Layer{}, nil
	}
	repo := secret.Repo(p.repoURL)
	if p.Environment.Snapshot == environment.FromSettings {
		list, err := b.Snapshots.ListSnapshots(ctx, repo, maxSnapshots)
		if err != nil {
			return layer.Layer{}, err
		}
		for _, own := range []bool{true, false} { // the user's own snapshots come first
			for _, s := range list {
				if l, err := b.Layers.Layer(s.ID); err == nil && l.Kept && (s.UserID == p.userID || !own && s.For(p.userID)) {
					return l, nil
				}
			}
		}
		return layer.Layer{}, nil
	}
	l, err := b.Layers.Layer(p.Environment.Snapshot)
	if err != nil || !l.Kept {
		return layer.Layer{}, nil //nolint:nilerr // no such layer
	}
	s, err := b.Snapshots.Snapshot(ctx, l.ID)
	switch {
	case errors.Is(err, store.ErrNotFound) && l.Packed != nil, err == nil && s.Repo == repo && s.For(p.userID):
		return l, nil
	case err == nil, errors.Is(err, store.ErrNotFound):
		return layer.Layer{}, nil
	}
	return layer.Layer{}, err
}

// mayStart reports whether a machine of the plan's user may start from a build.
// A build on a snapshot contains the snapshot's files, so the user must be
// allowed to use the snapshot.
func (b *Builder) mayStart(ctx context.Context, p Plan, r environment.Record) (bool, error) {
	if r.Base == "" || r.UserID == p.userID {
		return true, nil
	}
	s, err := b.Snapshots.Snapshot(ctx, r.Base)
	if errors.Is(err, store.ErrNotFound) {
		l, err := b.Layers.Layer(r.Base)
		return err == nil && l.Packed != nil, nil // a snapshot without a record may be used if the operator imported or exported it
	}
	return err == nil && s.For(p.userID), err
}
