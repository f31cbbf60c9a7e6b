package layer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"

	"github.com/klauspost/compress/zstd"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"aloft/internal/fault"
	"aloft/internal/text"
)

// A snapshot in a bucket is an OCI manifest, snapshots/ID.json, that lists the
// layers of its stack, lowest first. Each layer is in blobs/sha256/DIGEST. The
// image is not included: the configuration only contains its name. Snapshots in
// one bucket share their common layers.
const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+zstd"
	maxDocument  = 8 << 20 // of a manifest or configuration, in bytes
	maxValues    = 50_000  // JSON values of a manifest or configuration
)

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

type config struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	RootFS       struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	Aloft []Layer `json:"aloft"` // descriptions of the layers, lowest first
}

func manifestKey(id string) string { return "snapshots/" + id + ".json" }

var digestPattern = regexp.MustCompile(`^sha256:([0-9a-f]{64})$`)

// blobKey returns the key of a blob. It validates the digest, which is
// untrusted.
func blobKey(digest string) (string, error) {
	m := digestPattern.FindStringSubmatch(digest)
	if m == nil {
		return "", fmt.Errorf("digest %q is not sha256 and 64 hex digits", digest)
	}
	return "blobs/sha256/" + m[1], nil
}

// Export writes the layer and those below it to a bucket. Layers already in the
// bucket are skipped. progress, which may be nil, is called before each layer.
func (s *Store) Export(ctx context.Context, id string, to *blob.Bucket, progress func(n, of int)) error {
	stack, unpin, err := s.pin(id)
	if err != nil {
		return err
	}
	defer unpin()
	slices.Reverse(stack)
	m := manifest{SchemaVersion: 2, MediaType: manifestType}
	c := config{Architecture: runtime.GOARCH, OS: "linux"}
	c.RootFS.Type = "layers"
	for i, l := range stack {
		if progress != nil {
			progress(i+1, len(stack))
		}
		p, err := s.exportOne(ctx, l, to)
		if err != nil {
			return fmt.Errorf("export %s: layer %s: %w", id, l.ID, err)
		}
		m.Layers = append(m.Layers, descriptor{layerType, p.Digest, p.Size})
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, p.DiffID)
		l.Packed, l.Kept = &p, false
		c.Aloft = append(c.Aloft, l)
	}
	if m.Config, err = exportConfig(ctx, c, to); err != nil {
		return fmt.Errorf("export %s: %w", id, err)
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	// Write the manifest last, when everything that it refers to exists.
	if err := to.WriteAll(ctx, manifestKey(id), data, &blob.WriterOptions{ContentType: manifestType}); err != nil {
		return fmt.Errorf("export %s: %w", id, err)
	}
	return nil
}

func exportConfig(ctx context.Context, c config, to *blob.Bucket) (descriptor, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return descriptor{}, err
	}
	d := descriptor{configType, digestOf(sha256.Sum256(data)), int64(len(data))}
	key, err := blobKey(d.Digest)
	if err != nil {
		return d, err
	}
	return d, to.WriteAll(ctx, key, data, &blob.WriterOptions{ContentType: configType})
}

func digestOf(sum [sha256.Size]byte) string { return "sha256:" + hex.EncodeToString(sum[:]) }

// exportOne uploads a layer unless the bucket has it.
func (s *Store) exportOne(ctx context.Context, l Layer, to *blob.Bucket) (Packed, error) {
	if l.Packed != nil {
		key, err := blobKey(l.Packed.Digest)
		if err != nil {
			return Packed{}, err
		}
		if a, err := to.Attributes(ctx, key); err == nil && a.Size == l.Packed.Size {
			return *l.Packed, nil
		} else if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return Packed{}, err
		}
	}
	dir, done, err := s.workDir()
	if err != nil {
		return Packed{}, err
	}
	defer done()
	// Pack to a file first, since the key in the bucket is the digest of the
	// whole file.
	path := filepath.Join(dir, "layer.tar.zst")
	p, err := packFile(ctx, s.tree(l.ID), path)
	if err != nil {
		return Packed{}, err
	}
	key, err := blobKey(p.Digest)
	if err != nil {
		return Packed{}, err
	}
	if err := upload(ctx, path, key, to); err != nil {
		return Packed{}, err
	}
	return p, s.locked(func() error {
		now, err := s.Layer(l.ID)
		if err != nil {
			return err
		}
		now.Packed = &p
		return s.writeMeta(now)
	})
}

// packFile writes a tree as a compressed archive.
func packFile(ctx context.Context, tree, path string) (p Packed, err error) {
	f, err := os.Create(path)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	file, content := &sumWriter{w: f, sum: sha256.New()}, sha256.New()
	z, err := zstd.NewWriter(file)
	if err != nil {
		return p, err
	}
	if err := Pack(ctx, io.MultiWriter(content, z), tree); err != nil {
		return p, errors.Join(err, z.Close())
	}
	if err := z.Close(); err != nil {
		return p, err
	}
	return Packed{Digest: file.digest(), DiffID: "sha256:" + hex.EncodeToString(content.Sum(nil)), Size: file.n}, nil
}

type sumWriter struct {
	w   io.Writer
	sum hash.Hash
	n   int64
}

func (s *sumWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	_, _ = s.sum.Write(p[:n]) // writing to a hash never fails
	s.n += int64(n)
	return n, err
}

func (s *sumWriter) digest() string { return "sha256:" + hex.EncodeToString(s.sum.Sum(nil)) }

func upload(ctx context.Context, path, key string, to *blob.Bucket) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return to.Upload(ctx, key, f, &blob.WriterOptions{ContentType: layerType})
}

// Import reads a snapshot from a bucket and keeps it. Layers that the store
// already has are skipped. For progress, see Export.
func (s *Store) Import(ctx context.Context, id string, from *blob.Bucket, progress func(n, of int)) (Layer, error) {
	l, err := s.doImport(ctx, id, from, progress)
	if err != nil {
		return Layer{}, fmt.Errorf("import %s: %w", id, err)
	}
	return l, nil
}

func (s *Store) doImport(ctx context.Context, id string, from *blob.Bucket, progress func(n, of int)) (Layer, error) {
	if !ValidID(id) {
		return Layer{}, notFound(id)
	}
	layers, err := readManifest(ctx, id, from)
	if err != nil {
		return Layer{}, err
	}
	dir, done, err := s.workDir()
	if err != nil {
		return Layer{}, err
	}
	defer done()
	for i, l := range layers {
		if progress != nil {
			progress(i+1, len(layers))
		}
		if s.Has(l.ID) {
			continue
		}
		tree := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(tree, 0o755); err != nil {
			return Layer{}, err
		}
		if err := s.importOne(ctx, *l.Packed, from, tree); err != nil {
			return Layer{}, fmt.Errorf("layer %s: %w", l.ID, err)
		}
	}
	if err := syncTree(dir); err != nil {
		return Layer{}, err
	}
	return s.install(layers, dir)
}

// install moves unpacked layers into the store, lowest first, and claims the top
// one. It holds the store's lock, so that Collect sees all of them or none.
func (s *Store) install(layers []Layer, dir string) (top Layer, err error) {
	return top, s.locked(func() error {
		for i, l := range layers {
			if s.Has(l.ID) {
				continue
			}
			if err := s.moveInto(l, filepath.Join(dir, strconv.Itoa(i))); err != nil {
				return err
			}
		}
		if top, err = s.Layer(layers[len(layers)-1].ID); err != nil {
			return err
		}
		top.Kept = true
		return s.writeMeta(top)
	})
}

// readManifest returns the layers of a snapshot in a bucket, lowest first,
// after checking that they form one stack.
func readManifest(ctx context.Context, id string, from *blob.Bucket) ([]Layer, error) {
	raw, err := document(ctx, from, manifestKey(id))
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fault.NotFound("the bucket has no snapshot %s", id).Named("snapshot_not_found").Hint("export it there first: aloft snapshot export")
	}
	if err != nil {
		return nil, err
	}
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	key, err := blobKey(m.Config.Digest)
	if err != nil {
		return nil, err
	}
	if raw, err = document(ctx, from, key); err != nil {
		return nil, err
	}
	if digestOf(sha256.Sum256(raw)) != m.Config.Digest {
		return nil, errors.New("its configuration is damaged")
	}
	var c config
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return c.stack(id, m)
}

// stack validates a manifest and its configuration from a bucket.
func (c config) stack(id string, m manifest) ([]Layer, error) {
	if c.OS != "linux" || c.Architecture != runtime.GOARCH {
		return nil, fault.Invalid("it is for %s/%s, and this host is linux/%s", c.OS, c.Architecture, runtime.GOARCH)
	}
	n := len(c.Aloft)
	if n == 0 || n != len(m.Layers) || n != len(c.RootFS.DiffIDs) || n > maxStack {
		return nil, fmt.Errorf("it has %d layers, %d files and %d digests; expected 1 to %d of each", n, len(m.Layers), len(c.RootFS.DiffIDs), maxStack)
	}
	parent := ""
	out := make([]Layer, n)
	for i, l := range c.Aloft {
		if !ValidID(l.ID) || l.Parent != parent || l.Content() != c.Aloft[0].Content() || l.Image != c.Aloft[0].Image {
			return nil, fmt.Errorf("its layer %q is not based on %q", l.ID, parent)
		}
		if slices.ContainsFunc(out[:i], func(o Layer) bool { return o.ID == l.ID }) {
			return nil, fmt.Errorf("its layer %s is listed twice", l.ID)
		}
		l.Kept = false
		l.Packed = &Packed{Digest: m.Layers[i].Digest, DiffID: c.RootFS.DiffIDs[i], Size: m.Layers[i].Size}
		out[i], parent = l, l.ID
	}
	if parent != id {
		return nil, fmt.Errorf("its topmost layer is %s", parent)
	}
	return out, nil
}

func document(ctx context.Context, from *blob.Bucket, key string) ([]byte, error) {
	r, err := from.NewReader(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("%s is larger than %d MiB", key, maxDocument>>20)
	}
	if err == nil && !new(text.Meter).Count(data, 0, maxValues) {
		err = fmt.Errorf("%s has more than %d JSON values", key, maxValues)
	}
	return data, err
}

// importOne unpacks a layer and verifies both of its digests. It digests the
// bytes itself, because the processes that unpack may be hostile.
func (s *Store) importOne(ctx context.Context, p Packed, from *blob.Bucket, dir string) error {
	key, err := blobKey(p.Digest)
	if err != nil {
		return err
	}
	r, err := from.NewReader(ctx, key, nil)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	file := sha256.New()
	packed := io.TeeReader(r, file)
	plain, err := s.unpacker.Expand(ctx, packed)
	if err != nil {
		return err
	}
	sum := sha256.New()
	err = s.unpacker.Saved(ctx, io.TeeReader(plain, sum), dir)
	if err := errors.Join(err, plain.Close()); err != nil {
		return err
	}
	if "sha256:"+hex.EncodeToString(file.Sum(nil)) != p.Digest || "sha256:"+hex.EncodeToString(sum.Sum(nil)) != p.DiffID {
		return errors.New("it is damaged")
	}
	return nil
}
