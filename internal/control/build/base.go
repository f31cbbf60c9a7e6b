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

// base is what a machine begins with before install has run.
type base struct {
	image string
	layer string // a snapshot above it; "" is none
	// dockerfile has the image made of the Dockerfile, which image does not name.
	dockerfile bool
}

// from is the base of the plan's environment. What of it cannot be had stands
// in the notes.
func (b *Builder) from(ctx context.Context, p Plan) (of base, notes []string, err error) {
	e := p.Environment
	if e.Base() == environment.BaseSnapshot {
		l, err := b.snapshot(ctx, p)
		if err != nil {
			return base{}, nil, err
		}
		if l.ID != "" && b.stands(ctx, l.ID) {
			if err := b.usedSnapshot(ctx, l.ID); err != nil {
				return base{}, nil, err
			}
			return base{image: l.Image, layer: l.ID}, nil, nil
		}
		why := " is not there, has expired, is of another repository, or is another member's and no admin has published it"
		if l.ID != "" {
			why = " stands on the image " + l.Content() + ", which cannot be had"
		}
		notes = append(notes, "The snapshot "+e.Snapshot+why+". The machine starts from the next base instead.")
		e = e.WithoutSnapshot()
	}
	switch e.Base() {
	case environment.BaseImage:
		if ofTheHost(e.Image) {
			notes = append(notes, "The image "+e.Image+" is one of the server's own disk, which a repository may not name. The machine starts from the default image.")
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

// noImage says why a Dockerfile has no image, and what to do about it.
func noImage(why error) string {
	f := fault.Of(why)
	words := "The image of the Dockerfile is not there: " + f.Message
	if f.Advice != "" {
		words += " (" + f.Advice + ")"
	}
	return words + "."
}

// haveImage makes an image ready, or says why it cannot be had.
func (b *Builder) haveImage(ctx context.Context, name string) error {
	if b.HaveImage == nil {
		return nil
	}
	return b.HaveImage(ctx, name)
}

// imageOr is the image, or the default one where it cannot be had, which the
// notes tell.
func (b *Builder) imageOr(ctx context.Context, name string) (image string, notes []string) {
	if name == b.Image {
		return name, nil // there is no other
	}
	err := b.haveImage(ctx, name)
	if err == nil || ctx.Err() != nil {
		return name, nil
	}
	return b.Image, []string{"The image " + name + " cannot be had: " + words(err) + ". The machine starts from the default image."}
}

// stands reports whether a layer is there, with the image that it stands on.
func (b *Builder) stands(ctx context.Context, id string) bool {
	l, err := b.Layers.Layer(id)
	return err == nil && b.haveImage(ctx, l.Content()) == nil
}

// usedSnapshot keeps that something is about to begin with a snapshot.
func (b *Builder) usedSnapshot(ctx context.Context, id string) error {
	n, err := b.Snapshots.Snapshot(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (young(n.CreatedAt, usedStep) || young(n.UsedAt, usedStep)) {
		return nil // it is the operator's, or that is known
	}
	if err != nil {
		return err
	}
	if err := b.Snapshots.UseSnapshot(ctx, id, time.Now()); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// maxSnapshots bounds the snapshots among which the newest is looked for.
const maxSnapshots = 100

// snapshot finds the snapshot that the plan's environment names: one that was
// taken of the same repository and is the user's own or was published by an
// admin, or one that the operator has exported or imported, and so gave to whoever
// knows its name. The layer has no ID if there is none.
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
		for _, own := range []bool{true, false} { // the user's own count first
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
		return layer.Layer{}, nil //nolint:nilerr // it is not there
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

// mayStart reports whether a machine of the plan's user may start from a build:
// one of a snapshot has all that the snapshot has.
func (b *Builder) mayStart(ctx context.Context, p Plan, r environment.Record) (bool, error) {
	if r.Base == "" || r.UserID == p.userID {
		return true, nil
	}
	s, err := b.Snapshots.Snapshot(ctx, r.Base)
	if errors.Is(err, store.ErrNotFound) {
		l, err := b.Layers.Layer(r.Base)
		return err == nil && l.Packed != nil, nil // it is the operator's
	}
	return err == nil && s.For(p.userID), err
}
