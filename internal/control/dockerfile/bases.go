package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"aloft/internal/control/image/registry"
	"aloft/internal/lockfile"
)

// fullName returns the full name of an image in a registry, as engines write
// it.
func (b *Builder) fullName(ref string) (string, error) {
	r, err := registry.New(b.Registry).Parse(ref)
	if err != nil {
		return "", err
	}
	if rest, ok := strings.CutPrefix(r.Name, "index.docker.io/"); ok {
		return "docker.io/" + rest, nil
	}
	return r.Name, nil
}

// fetch downloads the base images of a build with the server's own registry
// client and under its rules, because a build has neither the server's
// credentials nor its network. The images are kept until the caller calls done.
func (b *Builder) fetch(ctx context.Context, bases []Base, g gate) (done func(), err error) {
	if len(bases) == 0 {
		return func() {}, nil
	}
	dir := b.basesDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := shareBases(ctx, dir)
	if err != nil {
		return nil, err
	}
	client := registry.New(b.Registry)
	for i := range bases {
		if err := b.fetchOne(ctx, client, &bases[i], g); err != nil {
			_ = lock.Close()
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, &Failure{Line: bases[i].line, Step: "FROM " + bases[i].Ref, Why: err.Error()}
		}
	}
	return func() { _ = lock.Close() }, nil
}

// shareBases locks the folder of base images against Prune.
func shareBases(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockfile.WaitShared(ctx, f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

func (b *Builder) fetchOne(ctx context.Context, client *registry.Client, base *Base, g gate) error {
	r, err := client.Parse(base.Ref)
	if err != nil {
		return err
	}
	if base.Digest, err = client.Digest(ctx, r); err != nil {
		return err
	}
	if b.Engine.Fetches() {
		return nil // the daemon fetches the image, from a registry that the server may contact
	}
	base.Dir = filepath.Join(b.basesDir(), strings.ReplaceAll(base.Digest, ":", "-"))
	if _, err := os.Stat(base.Dir); errors.Is(err, fs.ErrNotExist) {
		if err := b.save(ctx, client, r, base.Dir); err != nil {
			return err
		}
	}
	var triggers []string
	if base.Digest, triggers, err = registry.ReadSaved(base.Dir); err != nil {
		return err
	}
	for _, t := range triggers {
		if err := g.trigger(t); err != nil {
			return fmt.Errorf("the image brings ONBUILD %s: %w", squeeze(t), err)
		}
	}
	return nil
}

// save downloads an image into the folder dir. The folder appears only once the
// download is complete.
func (b *Builder) save(ctx context.Context, client *registry.Client, r registry.Reference, dir string) error {
	part, err := os.MkdirTemp(filepath.Dir(dir), "part-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(part) }() // after the rename, part no longer exists
	if err := client.Save(ctx, r, part, b.MaxBase); err != nil {
		return err
	}
	// The cell's users must be able to read the layout.
	err = filepath.WalkDir(part, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		if err == nil {
			return os.Chmod(path, 0o644)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = os.Rename(part, dir)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		return nil // another build has fetched the image meanwhile
	}
	return err
}

func (b *Builder) basesDir() string { return filepath.Join(b.Dir, "bases") }

// Prune deletes the builder's caches.
func (b *Builder) Prune(ctx context.Context) error {
	err := b.Engine.Prune(ctx)
	lock, lockErr := os.OpenFile(filepath.Join(b.basesDir(), "lock"), os.O_RDWR, 0)
	if lockErr != nil {
		return err // no image was ever fetched
	}
	defer func() { _ = lock.Close() }()
	if lockfile.Exclusive(lock, 0) != nil {
		return err // builds are using the images
	}
	for _, pattern := range []string{"sha256-*", "part-*"} {
		all, _ := filepath.Glob(filepath.Join(b.basesDir(), pattern)) // the pattern is valid
		for _, dir := range all {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}
