// Package registry resolves image references and downloads images from
// container registries. It verifies digests of manifests and configurations;
// callers verify layers.
//
// Registries and references are untrusted. Connections without TLS are made
// only to hosts that the operator configured as insecure, and credentials go
// only to their own registry. Neither a reference nor a response can direct the
// server to addresses that the outbound policy refuses, such as loopback and
// private networks, unless the operator has configured that host.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"aloft/internal/control/outbound"
	"aloft/internal/policy"
	"aloft/internal/text"
)

// A Credential is the login for one registry.
type Credential struct {
	Username string // "" if a token suffices
	Token    string // password or token
}

// Config holds the settings of a [Client].
type Config struct {
	// Credentials are keyed by the registry's host, with its port if it has one:
	// ghcr.io, registry.example.com:5000. docker.io means Docker Hub. For other
	// hosts the configuration files of Docker and Podman are read.
	Credentials map[string]Credential
	// Insecure lists hosts, with ports, that may be used without TLS.
	Insecure []string
	// Named lists further hosts, with ports, that the operator has configured
	// as registries. Named, Insecure and the hosts in Credentials are exempt
	// from the outbound policy.
	Named []string
	// Outbound is the policy for all other hosts.
	Outbound policy.Network
}

// A Client talks to registries. It is safe for concurrent use.
type Client struct {
	conf    Config
	foreign *outbound.Client // for hosts that the operator has not configured

	patience time.Duration // how long a registry may send no data
}

// New returns a client. If the policy is invalid, the client allows no other
// hosts.
func New(conf Config) *Client {
	foreign, err := outbound.New(conf.Outbound)
	if err != nil {
		foreign, _ = outbound.New(policy.Network{Mode: policy.None}) // this policy is valid
	}
	return &Client{conf, foreign, maxSilence}
}

// A Reference is the name of an image in a registry.
type Reference struct {
	ref  name.Reference
	Name string // full name: index.docker.io/library/debian:12
}

// Pinned reports whether the name contains a digest, so that it always means
// the same image.
func (r Reference) Pinned() bool {
	_, ok := r.ref.(name.Digest)
	return ok
}

// Parse parses a reference such as debian:12 or ghcr.io/team/app@sha256:….
func (c *Client) Parse(text string) (Reference, error) {
	ref, err := name.ParseReference(text)
	if err != nil {
		return Reference{}, err
	}
	if host := ref.Context().RegistryStr(); strings.HasPrefix(host, ".") {
		return Reference{}, fmt.Errorf("%q is not a registry", host)
	}
	if slices.Contains(c.conf.Insecure, ref.Context().RegistryStr()) {
		if ref, err = name.ParseReference(text, name.Insecure); err != nil {
			return Reference{}, err
		}
	}
	return Reference{ref, ref.Name()}, nil
}

// Host returns the registry of an image name, with its port. ok is false if the
// name is not a reference.
func Host(text string) (host string, ok bool) {
	ref, err := name.ParseReference(text)
	if err != nil {
		return "", false
	}
	return ref.Context().RegistryStr(), true
}

// A Layer is one layer of an image in a registry.
type Layer struct {
	Digest string // digest of the blob: sha256:…
	Diff   string // digest of the unpacked blob: sha256:…
	Size   int64  // size of the blob in bytes
}

// An Image is the image that a reference resolved to.
type Image struct {
	Digest string  // digest of the manifest for this platform
	Config []byte  // the image's configuration in OCI format
	Layers []Layer // lowest first

	repo   name.Repository
	client *http.Client
}

// Host returns the registry of the image, with its port.
func (i *Image) Host() string { return i.repo.RegistryStr() }

// Limits of a registry's responses.
const (
	maxDocument = 8 << 20 // bytes of a manifest or configuration
	maxHeader   = 256 << 10
	maxLayers   = 127
	maxSilence  = time.Minute // how long a registry may send no data
	maxValues   = 50_000      // JSON values of a manifest or configuration
)

// errTooLarge means that a manifest or configuration exceeds a limit.
var errTooLarge = fmt.Errorf("its manifest or configuration has more than %d MiB or %d values", maxDocument>>20, maxValues)

// Resolve finds the image that a reference means for this platform.
func (c *Client) Resolve(ctx context.Context, r Reference) (*Image, error) {
	img, err := c.resolve(ctx, r)
	if err != nil {
		return nil, explain(r.ref.Context().RegistryStr(), r.Name, err)
	}
	return img, nil
}

func (c *Client) resolve(ctx context.Context, r Reference) (*Image, error) {
	repo := r.ref.Context()
	base := c.transport()
	auth, err := c.credential(ctx, repo)
	if err != nil {
		return nil, err
	}
	desc, err := remote.Get(r.ref, remote.WithContext(ctx), remote.WithTransport(base), remote.WithAuth(auth),
		remote.WithRetryBackoff(remote.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Jitter: 0.1, Steps: 3}),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return nil, err
	}
	if !desc.MediaType.IsImage() && !desc.MediaType.IsIndex() {
		return nil, fmt.Errorf("it is a %q, which is not an image", desc.MediaType)
	}
	img, err := desc.Image()
	if err != nil {
		return nil, err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	if size := manifest.Config.Size; size < 0 || size > maxDocument {
		return nil, fmt.Errorf("its configuration has %d bytes; at most %d are read", size, maxDocument)
	}
	raw, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	if !new(text.Meter).Count(raw, 0, maxValues) {
		return nil, errTooLarge
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	diffs := config.RootFS.DiffIDs
	if len(diffs) != len(manifest.Layers) || len(diffs) == 0 || len(diffs) > maxLayers {
		return nil, fmt.Errorf("it has %d layers and %d digests of their content; expected 1 to %d of each", len(manifest.Layers), len(diffs), maxLayers)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		return nil, fmt.Errorf("it is for %s/%s, and this host is linux/%s", cmp.Or(config.OS, "?"), cmp.Or(config.Architecture, "?"), runtime.GOARCH)
	}
	rt, err := transport.NewWithContext(ctx, repo.Registry, auth, base, []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, err
	}
	out := &Image{Digest: digest.String(), Config: raw, repo: repo, client: &http.Client{Transport: rt}}
	for i, l := range manifest.Layers {
		out.Layers = append(out.Layers, Layer{Digest: l.Digest.String(), Diff: diffs[i].String(), Size: l.Size})
	}
	return out, nil
}

// Open starts to read a layer's blob at offset. If the registry does not
// support ranges, it starts at 0; from is the actual offset.
func (i *Image) Open(ctx context.Context, l Layer, offset int64) (body io.ReadCloser, from int64, err error) {
	url := fmt.Sprintf("%s://%s/v2/%s/blobs/%s", i.repo.Scheme(), i.repo.RegistryStr(), i.repo.RepositoryStr(), l.Digest)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, err
	}
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, l.Size-1))
	}
	resp, err := i.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case resp.StatusCode == http.StatusOK:
		return resp.Body, 0, nil
	case resp.StatusCode == http.StatusPartialContent && offset > 0 && startsAt(resp, offset):
		return resp.Body, offset, nil
	}
	err = transport.CheckError(resp, http.StatusOK)
	if err == nil {
		err = errors.New("the registry returned a different range than requested")
	}
	return nil, 0, errors.Join(err, resp.Body.Close())
}

// startsAt reports whether a partial response starts at offset.
func startsAt(resp *http.Response, offset int64) bool {
	var at int64
	_, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes "+strconv.FormatInt(offset, 10)+"-%d", &at)
	return err == nil
}

// credential returns the configured credential for a repository's registry.
func (c *Client) credential(ctx context.Context, repo name.Repository) (authn.Authenticator, error) {
	host := repo.RegistryStr()
	cred, ok := c.conf.Credentials[host]
	if !ok && host == name.DefaultRegistry {
		cred, ok = c.conf.Credentials["docker.io"]
	}
	switch {
	case !ok:
		auth, err := authn.Resolve(ctx, authn.DefaultKeychain, repo)
		if err != nil {
			return nil, fmt.Errorf("credentials in Docker's configuration: %w", err)
		}
		return auth, nil
	case cred.Username == "":
		return &authn.Bearer{Token: cred.Token}, nil
	}
	return &authn.Basic{Username: cred.Username, Password: cred.Token}, nil
}
