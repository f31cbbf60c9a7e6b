package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// sourceTimeout is the timeout for authenticating to a registry.
const sourceTimeout = time.Minute

// A Source is one repository of a registry. It answers requests of the registry
// protocol that only read. It is safe for concurrent use.
type Source struct {
	repo   name.Repository
	client *http.Client
}

// Source opens a repository, such as library/debian, of the registry host. It
// authenticates with the configured credential, or not at all if anonymous is
// true. The error of a registry that refuses is a fault.
func (c *Client) Source(ctx context.Context, host, repository string, anonymous bool) (*Source, error) {
	var options []name.Option
	if slices.Contains(c.conf.Insecure, host) {
		options = append(options, name.Insecure)
	}
	repo, err := name.NewRepository(host+"/"+repository, append(options, name.StrictValidation)...)
	if err != nil {
		return nil, err
	}
	auth := authn.Anonymous
	if !anonymous {
		if auth, err = c.credential(ctx, repo); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	rt, err := transport.NewWithContext(ctx, repo.Registry, auth, c.transport(), []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, explain(repo.RegistryStr(), repo.Name(), err)
	}
	return &Source{repo, &http.Client{Transport: rt}}, nil
}

// Get sends a GET or HEAD request for path below the repository: manifests/TAG,
// blobs/DIGEST or tags/list. It follows redirects, and returns the registry's
// response whatever its status is. Bodies of manifests are limited in size.
func (s *Source) Get(ctx context.Context, method, path string, query url.Values, header http.Header) (*http.Response, error) {
	if method != http.MethodGet && method != http.MethodHead {
		return nil, fmt.Errorf("method %s may write to a registry", method)
	}
	u := url.URL{Scheme: s.repo.Scheme(), Host: s.repo.RegistryStr(), Path: "/v2/" + s.repo.RepositoryStr() + "/" + path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = header
	resp, err := s.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		return nil, explain(s.repo.RegistryStr(), s.repo.Name(), err)
	}
	return resp, nil
}
