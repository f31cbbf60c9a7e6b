package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
)

// A part is a layer of an image to be prepared.
type part struct {
	diff string // hex digest of its unpacked content, used as its name
	size int64  // bytes to fetch or read
	fill func(ctx context.Context, dir string) error
	done func(made bool) // called when the layer is complete or has failed; may be nil
}

// atOnce is how many layers are fetched and unpacked concurrently.
const atOnce = 4

// gather makes the missing layers, several at a time, and returns the keys of
// all, topmost first. The parts are given lowest first.
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
			if p.done != nil {
				p.done(err == nil)
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
// both of its hex digests.
func unpack(ctx context.Context, r io.Reader, digest, diff, dir string, all *budget) error {
	count := &counter{r: r}
	packed := newSumReader(count)
	plain, err := decompress(packed)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }()
	metered := &meteredReader{r: plain, packed: count, budget: all}
	content := newSumReader(metered)
	if err := untarWith(ctx, content, dir, false, metered.entry); err != nil {
		return err
	}
	// The digests include what follows the end of the archive.
	for _, r := range []io.Reader{content, packed} {
		if n, err := io.Copy(io.Discard, io.LimitReader(r, maxTail+1)); err != nil {
			return err
		} else if n > maxTail {
			return fmt.Errorf("more than %d MiB follow the end of the archive", maxTail>>20)
		}
	}
	if packed.hex() != digest || content.hex() != diff {
		return fmt.Errorf("layer sha256:%s is damaged", digest)
	}
	return syncTree(dir)
}

// maxTail is the maximum size of padding after an archive's end.
const maxTail = 64 << 20

// decompress detects the compression from the content, since media types can be
// wrong.
func decompress(r io.Reader) (io.ReadCloser, error) {
	head := make([]byte, 4)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	r = io.MultiReader(bytes.NewReader(head[:n]), r)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzip.NewReader(r)
	case slices.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(r), nil
}

// A sumReader digests what is read through it.
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
