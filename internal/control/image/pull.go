package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/image/registry"
	"aloft/internal/control/image/unpack"
	"aloft/internal/fault"
	"aloft/internal/lockfile"
)

// Pull asks the registry for the reference's current image, without using the
// cache, and prepares that image.
func (s *Store) Pull(ctx context.Context, name string, progress func(Progress)) (Image, error) {
	ref, err := s.registry.Parse(name)
	if err != nil {
		return Image{}, fmt.Errorf("image %q: %w: %w", name, errReference, err)
	}
	img, err := s.pull(ctx, ref, newTeller(name, progress))
	if err != nil {
		return Image{}, fmt.Errorf("image %q: %w", name, diskFull(err))
	}
	return img, nil
}

// prepareRemote prepares an image of a registry. A cached digest needs no
// request; a tag is resolved again after Options.Recheck. If the registry is
// unreachable, a cached image is used.
func (s *Store) prepareRemote(ctx context.Context, ref registry.Reference, tell *teller) (Image, error) {
	r, here := s.find(ref.Name)
	if here && (ref.Pinned() || time.Since(r.Checked) < s.opts.Recheck) {
		return s.image(ctx, r)
	}
	img, err := s.pull(ctx, ref, tell)
	if err != nil && here && ctx.Err() == nil && registry.Away(err) {
		tell.note(fmt.Sprintf("cannot reach the registry of %s: using the image that the name meant at %s", ref.Name, r.Checked.UTC().Format(time.DateTime)))
		return s.image(ctx, r)
	}
	return img, err
}

func (s *Store) pull(ctx context.Context, ref registry.Reference, tell *teller) (Image, error) {
	remote, err := s.registry.Resolve(ctx, ref)
	if err != nil {
		return Image{}, err
	}
	var config ociConfig
	if err := json.Unmarshal(remote.Config, &config); err != nil {
		return Image{}, fmt.Errorf("configuration: %w", err)
	}
	r := Record{Name: ref.Name, Digest: remote.Digest, Config: config.Config, Checked: time.Now()}
	all := s.newBudget()
	if err := all.take(0); err != nil {
		return Image{}, err
	}
	var sum int64
	var parts []part
	for _, named := range remote.Layers {
		l, err := layerAt(remote, named)
		if err != nil {
			return Image{}, err
		}
		if sum += l.Size; all.most > 0 && sum > all.most {
			return Image{}, fault.Exhausted("the image has more than %d MiB", all.most>>20).Named("image_too_large").
				Hint("use a smaller image, or raise machine.disk_bytes")
		}
		// When this blob is unlocked, another caller that waits for it will
		// find the layer and need not download the blob.
		var blob *os.File
		parts = append(parts, part{diff: l.diff, size: l.Size, fill: func(ctx context.Context, dir string) error {
			if blob != nil { // a prune has removed the layer, so it is created again
				_ = errors.Join(lockfile.Unlock(blob), blob.Close())
			}
			var err error
			if blob, err = s.lockBlob(ctx, l); err != nil {
				return err
			}
			return s.fetch(ctx, l, blob, dir, all, tell)
		}, onDone: func(made bool) {
			if blob == nil {
				return
			}
			if made {
				_ = os.Remove(blob.Name()) // if this fails, Prune removes it later
			}
			_ = blob.Close()
		}})
	}
	if r.Layers, err = s.gather(ctx, parts, tell); err != nil {
		return Image{}, err
	}
	if err := s.save(r); err != nil {
		return Image{}, err
	}
	return s.image(ctx, r)
}

// remoteLayer is a layer of an image at a registry.
type remoteLayer struct {
	registry.Layer
	of           *registry.Image
	digest, diff string // hex digests of the blob and of its content
}

// layerAt validates a layer that the registry names.
func layerAt(of *registry.Image, l registry.Layer) (remoteLayer, error) {
	diff, err := hexDigest(l.Diff)
	if err != nil {
		return remoteLayer{}, err
	}
	digest, err := hexDigest(l.Digest)
	if err != nil {
		return remoteLayer{}, err
	}
	if l.Size < 0 || l.Size > unpack.MaxBytes {
		return remoteLayer{}, fmt.Errorf("layer %s claims to have %d bytes; the limit is %d GiB", l.Digest, l.Size, unpack.MaxBytes>>30)
	}
	return remoteLayer{l, of, digest, diff}, nil
}

// fetch downloads a layer's blob, continuing an earlier partial download, and
// unpacks it into dir. The blob is verified before it is unpacked.
func (s *Store) fetch(ctx context.Context, l remoteLayer, blob *os.File, dir string, all *budget, tell *teller) error {
	if s.protectLayer(layerKey(l.diff)) {
		return errMadeByOther
	}
	if err := download(ctx, l, blob, tell); err != nil {
		return err
	}
	if _, err := blob.Seek(0, io.SeekStart); err != nil {
		return err
	}
	err := s.unpack(ctx, blob, l.digest, l.diff, dir, all)
	if err != nil && ctx.Err() == nil {
		err = errors.Join(err, os.Remove(blob.Name())) // the content does not match its digest
	}
	return err
}

// errMadeByOther means that another caller created the layer while this caller
// waited for the blob.
var errMadeByOther = errors.New("made by another")

// lockBlob opens and locks the file that a blob is downloaded into, so that one
// of several concurrent callers downloads it and the others wait. Each registry has its
// own file: a registry that never finishes a blob must not delay the pull of the
// same blob from another registry.
func (s *Store) lockBlob(ctx context.Context, l remoteLayer) (*os.File, error) {
	host := sha256.Sum256([]byte(l.of.Host()))
	return lockfile.Create(ctx, filepath.Join(s.dir, "blobs", fmt.Sprintf("%s-%x.part", l.digest, host[:8])))
}

// tries is the number of consecutive attempts to download a blob without
// receiving any byte.
const tries = 5

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// download completes the file with the blob, continuing where an earlier
// attempt ended.
func download(ctx context.Context, l remoteLayer, f *os.File, tell *teller) error {
	sum := sha256.New()
	have, err := io.Copy(sum, io.LimitReader(f, l.Size))
	if err != nil {
		return err
	}
	resumed := have > 0
	tell.update(false, func(p *Progress) { p.Done += have })
	again := func(n int64) error { // start over after n useless bytes
		tell.update(false, func(p *Progress) { p.Done -= n })
		sum.Reset()
		have = 0
		if err := f.Truncate(0); err != nil {
			return err
		}
		_, err := f.Seek(0, io.SeekStart)
		return err
	}
	for failed := 0; ; {
		for have < l.Size {
			body, from, err := l.of.Open(ctx, l.Layer, have)
			if err == nil && from != have {
				err = again(have)
			}
			var n int64
			if body != nil {
				if err == nil {
					n, err = io.Copy(io.MultiWriter(f, sum, tell), io.LimitReader(body, l.Size-have))
				}
				_ = body.Close()
			}
			have += n
			if err == nil && have < l.Size {
				err = io.ErrUnexpectedEOF
			}
			if err == nil {
				break
			}
			if n > 0 {
				failed = 0
			}
			if failed++; failed == tries || ctx.Err() != nil || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
				return fmt.Errorf("fetch %s: %w", l.Digest, err)
			}
			if err := pause(ctx, time.Duration(failed)*200*time.Millisecond); err != nil {
				return err
			}
		}
		if hex.EncodeToString(sum.Sum(nil)) == l.digest {
			return nil
		}
		// The part from an earlier attempt may be corrupt, so retry once from the
		// start.
		if err := again(have); err != nil {
			return err
		}
		if !resumed {
			return fmt.Errorf("the registry's data for layer %s does not match its digest", l.Digest)
		}
		resumed = false
	}
}
