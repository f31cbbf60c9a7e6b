package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"
)

// A part is a layer of an image to be prepared.
type part struct {
	diff   string // hex digest of its unpacked content, used as its name
	size   int64  // bytes to fetch or read
	fill   func(ctx context.Context, dir string) error
	onDone func(made bool) // called when the layer is complete or has failed; may be nil
}

// atOnce is how many layers are fetched and unpacked concurrently.
const atOnce = 4

// gather creates the missing layers, several at a time, and returns the keys of
// all layers, topmost first. parts is sorted lowest first.
func (s *Store) gather(ctx context.Context, parts []part, tell *teller) ([]string, error) {
	var missing []part
	keys := make([]string, 0, len(parts))
	for _, p := range parts {
		key := layerKey(p.diff)
		if !slices.Contains(keys, key) && !s.protectLayer(key) {
			missing = append(missing, p)
			tell.update(false, func(now *Progress) { now.Layers++; now.Total += p.size })
		}
		keys = append(keys, key)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, p := range missing {
		group.Go(func() error {
			_, err := s.layer(ctx, layerKey(p.diff), p.fill)
			if errors.Is(err, errMadeByOther) {
				err = nil
			}
			if p.onDone != nil {
				p.onDone(err == nil)
			}
			if err == nil {
				tell.update(true, func(now *Progress) { now.Ready++ })
			}
			return err
		})
	}
	err := group.Wait()
	slices.Reverse(keys)
	return keys, err
}

func layerKey(diff string) string { return "oci-" + diff }

// unpack writes a layer into dir, within the budget of its image, and verifies
// both of its hex digests. It digests the bytes itself, because the processes
// that unpack may be hostile.
func (s *Store) unpack(ctx context.Context, r io.Reader, digest, diff, dir string, all *budget) error {
	count := &counter{r: r}
	packed := newSumReader(count)
	plain, err := s.unpacker.Expand(ctx, packed)
	if err != nil {
		return err
	}
	metered := &meteredReader{r: plain, packed: count, budget: all}
	content := newSumReader(metered)
	err = s.unpacker.Layer(ctx, content, dir, func(n int) error { return all.take(int64(n) * entryBytes) })
	if err := errors.Join(err, plain.Close()); err != nil {
		return err
	}
	if packed.hex() != digest || content.hex() != diff {
		return fmt.Errorf("layer sha256:%s is damaged", digest)
	}
	return syncTree(dir)
}

// A sumReader digests the bytes read through it.
type sumReader struct {
	r   io.Reader
	sum hash.Hash
}

func newSumReader(r io.Reader) *sumReader { return &sumReader{r, sha256.New()} }

func (s *sumReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	_, _ = s.sum.Write(p[:n]) // writing to a hash never fails
	return n, err
}

func (s *sumReader) hex() string { return hex.EncodeToString(s.sum.Sum(nil)) }
