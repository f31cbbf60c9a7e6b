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
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"aloft/internal/fault"
)

// Limits of a layout, which is untrusted input.
const (
	maxDocument = 8 << 20 // bytes of an index, manifest or configuration
	maxLayers   = 127
	maxNesting  = 4 // depth of indexes within indexes
)

// A descriptor refers to a blob of the layout.
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
	Config       Config `json:"config"`
	RootFS       struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// tagAnnotation is the annotation in a layout's index that names an image.
const tagAnnotation = "org.opencontainers.image.ref.name"

// prepareOCI unpacks the layers of an image that are not unpacked yet.
func (s *Store) prepareOCI(ctx context.Context, name, ref string, tell *teller) (Image, error) {
	r, err := s.readLayout(ctx, name, ref, tell)
	if err != nil {
		return Image{}, err
	}
	return s.image(ctx, r)
}

// Import imports the image of an OCI layout, DIR or DIR:TAG, under the name
// "local:NAME". The layout is not needed afterwards.
func (s *Store) Import(ctx context.Context, ref, name string, progress func(Progress)) (Image, error) {
	if !validLocal.MatchString(name) {
		return Image{}, fault.Invalid("%q cannot name an image: lower-case letters, digits and . _ - / : are allowed, at most 128", name)
	}
	ref, err := filepath.Abs(ref)
	if err != nil {
		return Image{}, err
	}
	r, err := s.readLayout(ctx, localPrefix+name, ref, newTeller(ref, progress))
	if err != nil {
		return Image{}, fmt.Errorf("import %s: %w", ref, diskFull(err))
	}
	return s.image(ctx, r)
}

// builtPrefix is the name prefix of images built from Dockerfiles. They can be
// built again, so they are pruned when unused.
const builtPrefix = localPrefix + "build/"

// ImportBuilt imports the only image of an OCI layout and returns its name,
// which is derived from its content.
func (s *Store) ImportBuilt(ctx context.Context, dir string) (name string, img Image, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", img, err
	}
	found, err := layout{root}.image("")
	_ = root.Close()
	if err != nil {
		return "", img, err
	}
	name = builtPrefix + strings.TrimPrefix(found.digest, "sha256:")[:32]
	img, err = s.Import(ctx, dir, strings.TrimPrefix(name, localPrefix), nil)
	return name, img, err
}

var validLocal = regexp.MustCompile(`^[a-z0-9]([a-z0-9._/:-]{0,126}[a-z0-9])?$`)

// readLayout unpacks the image of a layout and records it under the name.
func (s *Store) readLayout(ctx context.Context, name, ref string, tell *teller) (Record, error) {
	dir, tag := splitTag(ref)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Record{}, err
	}
	defer func() { _ = root.Close() }()
	l := layout{root}
	img, err := l.image(tag)
	if err != nil {
		return Record{}, err
	}
	if r, ok := s.find(name); ok && r.Digest == img.digest {
		return r, nil
	}
	r := Record{Name: name, Digest: img.digest, Config: img.config, Checked: time.Now()}
	all := s.newBudget()
	if err := all.take(0); err != nil {
		return Record{}, err
	}
	var parts []part
	for _, ly := range img.layers {
		parts = append(parts, part{diff: ly.diff, size: ly.Size, fill: func(ctx context.Context, dir string) error {
			return s.unpackBlob(ctx, l, ly, dir, all, tell)
		}})
	}
	if r.Layers, err = s.gather(ctx, parts, tell); err != nil {
		return Record{}, err
	}
	return r, s.save(r)
}

// splitTag splits DIR:TAG, where a folder's name may also contain a colon.
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

// A layout is an OCI image layout. Nothing outside of its folder is ever read.
type layout struct{ root *os.Root }

// A layerBlob is one layer of an image in a layout.
type layerBlob struct {
	descriptor
	diff string // hex digest of the unpacked blob
}

// A layoutImage is an image in a layout.
type layoutImage struct {
	digest string
	config Config
	layers []layerBlob // lowest first
}

// image finds the tagged image, or the only one if tag is "".
func (l layout) image(tag string) (img layoutImage, err error) {
	raw, err := l.document("index.json")
	if err != nil {
		return img, err
	}
	d, manifest, err := l.choose(raw, tag, 0)
	if err != nil {
		return img, err
	}
	var config ociConfig
	if err := l.json(manifest.Config, &config); err != nil {
		return img, fmt.Errorf("configuration: %w", err)
	}
	img.digest, img.config = d.Digest, config.Config
	if config.OS != "" && config.OS != "linux" || config.Architecture != "" && config.Architecture != runtime.GOARCH {
		return img, fmt.Errorf("it is for %s/%s, and this host is linux/%s", config.OS, config.Architecture, runtime.GOARCH)
	}
	diffs := config.RootFS.DiffIDs
	if len(diffs) != len(manifest.Layers) || len(diffs) == 0 || len(diffs) > maxLayers {
		return img, fmt.Errorf("it has %d layers and %d digests of their content; expected 1 to %d of each", len(manifest.Layers), len(diffs), maxLayers)
	}
	for i, d := range manifest.Layers {
		diff, err := hexDigest(diffs[i])
		if err != nil {
			return img, err
		}
		img.layers = append(img.layers, layerBlob{descriptor: d, diff: diff})
	}
	return img, nil
}

// choose finds the manifest for this platform in an index, through nested
// indexes.
func (l layout) choose(index []byte, tag string, depth int) (descriptor, ociManifest, error) {
	var idx ociIndex
	if err := json.Unmarshal(index, &idx); err != nil {
		return descriptor{}, ociManifest{}, fmt.Errorf("index: %w", err)
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
		return descriptor{}, ociManifest{}, fmt.Errorf("its index has %d images for linux/%s with the tag %q, expected one: name it as oci:DIR:TAG", len(fit), runtime.GOARCH, tag)
	}
	d := fit[0]
	switch d.MediaType {
	case "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json":
		if depth == maxNesting {
			return descriptor{}, ociManifest{}, errors.New("its indexes are nested too deep")
		}
		raw, err := l.blob(d)
		if err != nil {
			return descriptor{}, ociManifest{}, err
		}
		return l.choose(raw, tag, depth+1)
	case "application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json":
		var m ociManifest
		err := l.json(d, &m)
		return d, m, err
	}
	return descriptor{}, ociManifest{}, fmt.Errorf("its index contains a %q, which is not an image", d.MediaType)
}

func (l layout) json(d descriptor, into any) error {
	raw, err := l.blob(d)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// blob reads a small blob and verifies its digest.
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

// open opens a regular file of the layout. It does not block on a named pipe,
// which a build step may have put there.
func (l layout) open(name string) (*os.File, error) {
	f, err := l.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", name), err, f.Close())
	}
	return f, nil
}

func (l layout) document(name string) ([]byte, error) {
	f, err := l.open(name)
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

// unpackBlob writes a layer of a layout into dir.
func (s *Store) unpackBlob(ctx context.Context, l layout, ly layerBlob, dir string, all *budget, tell *teller) error {
	want, err := hexDigest(ly.Digest)
	if err != nil {
		return err
	}
	f, err := l.open("blobs/sha256/" + want)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return s.unpack(ctx, io.TeeReader(f, tell), want, ly.diff, dir, all)
}
