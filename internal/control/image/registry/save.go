package registry

import (
	"context"
	"fmt"
	"math"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"aloft/internal/fault"
)

// Digest returns the digest of the manifest that a reference currently means,
// for this or several platforms: sha256:….
func (c *Client) Digest(ctx context.Context, r Reference) (string, error) {
	options, err := c.options(ctx, r)
	if err != nil {
		return "", explain(r.ref.Context().RegistryStr(), r.Name, err)
	}
	d, err := remote.Get(r.ref, options...)
	if err != nil {
		return "", explain(r.ref.Context().RegistryStr(), r.Name, err)
	}
	return d.Digest.String(), nil
}

func (c *Client) options(ctx context.Context, r Reference) ([]remote.Option, error) {
	repo := r.ref.Context()
	auth, err := c.credential(ctx, repo)
	if err != nil {
		return nil, err
	}
	return []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(c.transport()), remote.WithAuth(auth),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}),
	}, nil
}

// Save writes the image that a reference means for this platform to the folder
// dir, as an OCI layout. If most is not 0, it fails if the compressed layers
// are larger than most bytes in total.
func (c *Client) Save(ctx context.Context, r Reference, dir string, most int64) error {
	if err := c.save(ctx, r, dir, most); err != nil {
		return explain(r.ref.Context().RegistryStr(), r.Name, err)
	}
	return nil
}

func (c *Client) save(ctx context.Context, r Reference, dir string, most int64) error {
	options, err := c.options(ctx, r)
	if err != nil {
		return err
	}
	img, err := remote.Image(r.ref, options...)
	if err != nil {
		return err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	sum := max(0, manifest.Config.Size)
	for _, l := range manifest.Layers {
		if l.Size < 0 || l.Size > math.MaxInt64-sum {
			return fmt.Errorf("layer %s has an invalid size: %d bytes", l.Digest, l.Size)
		}
		sum += l.Size
	}
	if manifest.Config.Size > maxDocument || len(manifest.Layers) > maxLayers || most > 0 && sum > most {
		return fault.Exhausted("image %s is too large: it has %d bytes in %d layers, and the limits are %d bytes and %d layers", r.Name, sum, len(manifest.Layers), most, maxLayers).
			Named("image_too_large").Hint("use a smaller image, or raise machine.disk_bytes")
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := to.AppendImage(img); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	return nil
}

// ReadSaved returns the digest and the ONBUILD instructions of the single image
// saved in a folder.
func ReadSaved(dir string) (digest string, triggers []string, err error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return "", nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", nil, err
	}
	if len(manifest.Manifests) != 1 {
		return "", nil, fmt.Errorf("%s has %d images", dir, len(manifest.Manifests))
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return "", nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return "", nil, err
	}
	return manifest.Manifests[0].Digest.String(), config.Config.OnBuild, nil
}
