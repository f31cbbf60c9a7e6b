package image

import (
	"bytes"
	"compress/gzip"
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
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Bounds on what a layout may hold. A layout is a file that somebody sent.
const (
	maxDocument = 8 << 20 // of an index, manifest or configuration
	maxLayers   = 127
	maxNesting  = 4 // of an index in an index
)

// A descriptor points to a blob of the layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
	Platform    *struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	} `json:"platform"`
}

type ociIndex struct {
	Manifests []descriptor `json:"manifests"`
}

type ociManifest struct {
	Config descriptor   `json:"config"`
	Layers []descriptor `json:"layers"`
}

type ociConfig struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	RootFS       struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// tagAnnotation names an image in a layout's index.
const tagAnnotation = "org.opencontainers.image.ref.name"

// prepareOCI unpacks the layers of an image that are not unpacked yet.
func (s *Store) prepareOCI(ctx context.Context, ref string) (Image, error) {
	dir, tag := splitTag(ref)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = root.Close() }()
	l := layout{root}
	layers, err := l.layers(tag)
	if err != nil {
		return Image{}, err
	}
	var lower []string
	for _, ly := range layers {
		dir, err := s.layer(ctx, "oci-"+ly.diff, func(ctx context.Context, dir string) error {
			return l.unpack(ctx, ly, dir)
		})
		if err != nil {
			return Image{}, err
		}
		lower = append([]string{dir}, lower...)
	}
	return s.amend(ctx, lower)
}

// splitTag parts DIR:TAG, where a folder's name may hold a colon too.
func splitTag(ref string) (dir, tag string) {
	if _, err := os.Stat(filepath.Join(ref, "index.json")); err == nil {
		return ref, ""
	}
	i := strings.LastIndexByte(ref, ':')
	if i < 0 || strings.Contains(ref[i:], "/") {
		return ref, ""
	}
	return ref[:i], ref[i+1:]
}

// A layout is an OCI image layout; nothing outside its folder is ever read.
type layout struct{ root *os.Root }

// A layerBlob is one layer of an image, as the layout holds it.
type layerBlob struct {
	descriptor
	diff string // hex digest of what the blob unpacks to
}

// layers lists the layers of the tagged image, or of the only one, lowest first.
func (l layout) layers(tag string) ([]layerBlob, error) {
	raw, err := l.document("index.json")
	if err != nil {
		return nil, err
	}
	manifest, err := l.choose(raw, tag, 0)
	if err != nil {
		return nil, err
	}
	var config ociConfig
	if err := l.json(manifest.Config, &config); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if config.OS != "" && config.OS != "linux" || config.Architecture != "" && config.Architecture != runtime.GOARCH {
		return nil, fmt.Errorf("it is for %s/%s, and this host is linux/%s", config.OS, config.Architecture, runtime.GOARCH)
	}
	diffs := config.RootFS.DiffIDs
	if len(diffs) != len(manifest.Layers) || len(diffs) == 0 || len(diffs) > maxLayers {
		return nil, fmt.Errorf("it has %d layers and %d digests of their content; there have to be 1 to %d of both", len(manifest.Layers), len(diffs), maxLayers)
	}
	out := make([]layerBlob, len(diffs))
	for i, d := range manifest.Layers {
		diff, err := hexDigest(diffs[i])
		if err != nil {
			return nil, err
		}
		out[i] = layerBlob{descriptor: d, diff: diff}
	}
	return out, nil
}

// choose finds the manifest that an index means, through indexes for several
// platforms.
func (l layout) choose(index []byte, tag string, depth int) (ociManifest, error) {
	var idx ociIndex
	if err := json.Unmarshal(index, &idx); err != nil {
		return ociManifest{}, fmt.Errorf("index: %w", err)
	}
	var fit []descriptor
	for _, d := range idx.Manifests {
		tagged := depth > 0 || tag == "" || d.Annotations[tagAnnotation] == tag
		ours := d.Platform == nil || d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH
		if tagged && ours {
			fit = append(fit, d)
		}
	}
	if len(fit) != 1 {
		return ociManifest{}, fmt.Errorf("its index has %d images for linux/%s with the tag %q, and it has to be one: name it as oci:DIR:TAG", len(fit), runtime.GOARCH, tag)
	}
	d := fit[0]
	switch d.MediaType {
	case "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json":
		if depth == maxNesting {
			return ociManifest{}, errors.New("its indexes are nested too deep")
		}
		raw, err := l.blob(d)
		if err != nil {
			return ociManifest{}, err
		}
		return l.choose(raw, tag, depth+1)
	case "application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json":
		var m ociManifest
		err := l.json(d, &m)
		return m, err
	}
	return ociManifest{}, fmt.Errorf("its index holds a %q, which is no image", d.MediaType)
}

func (l layout) json(d descriptor, into any) error {
	raw, err := l.blob(d)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// blob reads a small blob and proves it against its digest.
func (l layout) blob(d descriptor) ([]byte, error) {
	want, err := hexDigest(d.Digest)
	if err != nil {
		return nil, err
	}
	raw, err := l.document("blobs/sha256/" + want)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != want {
		return nil, fmt.Errorf("blob %s is damaged", d.Digest)
	}
	return raw, nil
}

func (l layout) document(name string) ([]byte, error) {
	f, err := l.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxDocument {
		return nil, fmt.Errorf("%s is larger than %d MiB", name, maxDocument>>20)
	}
	return raw, nil
}

var sha256Hex = regexp.MustCompile(`^sha256:([0-9a-f]{64})$`)

func hexDigest(s string) (string, error) {
	m := sha256Hex.FindStringSubmatch(s)
	if m == nil {
		return "", fmt.Errorf("digest %q is not sha256 and 64 hex digits", s)
	}
	return m[1], nil
}

// unpack writes a layer into dir and proves it against both of its digests.
func (l layout) unpack(ctx context.Context, ly layerBlob, dir string) error {
	want, err := hexDigest(ly.Digest)
	if err != nil {
		return err
	}
	f, err := l.root.Open("blobs/sha256/" + want)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	packed := newSumReader(f)
	plain, err := decompress(packed)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }()
	content := newSumReader(plain)
	if err := untar(ctx, content, dir); err != nil {
		return err
	}
	// What follows the archive's end belongs to the digests too.
	for _, r := range []io.Reader{content, packed} {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
	}
	if packed.hex() != want || content.hex() != ly.diff {
		return fmt.Errorf("layer %s is damaged", ly.Digest)
	}
	return nil
}

// decompress looks at what the stream is, since media types lie.
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
	_, _ = s.sum.Write(p[:n]) // a hash does not fail
	return n, err
}

func (s *sumReader) hex() string { return hex.EncodeToString(s.sum.Sum(nil)) }
