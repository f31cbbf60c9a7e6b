package registry

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Known reports whether the operator has named the reference's registry, or it
// is one on loopback.
func (c *Client) Known(r Reference) bool {
	host := r.ref.Context().RegistryStr()
	_, given := c.conf.Credentials[host]
	return loopback(host) || slices.Contains(c.conf.Insecure, host) || given && host != name.DefaultRegistry
}

// Save writes the image that a reference means for this platform to the folder
// dir, as an OCI layout, and returns its digest: sha256:….
func (c *Client) Save(ctx context.Context, r Reference, dir string) (digest string, err error) {
	digest, err = c.save(ctx, r, dir)
	if err != nil {
		return "", explain(r, err)
	}
	return digest, nil
}

func (c *Client) save(ctx context.Context, r Reference, dir string) (string, error) {
	repo := r.ref.Context()
	auth, err := c.credential(ctx, repo)
	if err != nil {
		return "", err
	}
	img, err := remote.Image(r.ref, remote.WithContext(ctx), remote.WithTransport(c.transport(repo.Registry)), remote.WithAuth(auth),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return "", err
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", err
	}
	if err := to.AppendImage(img); err != nil {
		return "", fmt.Errorf("save: %w", err)
	}
	digest, err := img.Digest()
	return digest.String(), err
}
