package pid1

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"aloft/internal/wire/podv1"
)

// Limits of the metadata.
const (
	maxMetadata      = 256
	maxMetadataValue = 16 << 10 // bytes
)

var metadataPath = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(/[a-z0-9][a-z0-9-]*){0,7}$`)

// metadata holds the values that the control plane provides about the machine's
// agent, by path. Paths form a tree: a path has either a value or paths below
// it. The zero value is empty. Its methods are safe for concurrent use.
type metadata struct {
	mu     sync.Mutex
	values map[string]string
}

// set replaces all values.
func (m *metadata) set(values map[string]string) error {
	if len(values) > maxMetadata {
		return fmt.Errorf("values: %d values are too many; the limit is %d", len(values), maxMetadata)
	}
	for path, value := range values {
		switch {
		case !metadataPath.MatchString(path):
			return fmt.Errorf("values: %.100q is not a valid path; write it like agent/id", path)
		case len(value) > maxMetadataValue || strings.ContainsRune(value, 0):
			return fmt.Errorf("values: the value of %s is longer than %d KiB or contains a NUL byte", path, maxMetadataValue>>10)
		}
		for up := path; strings.Contains(up, "/"); {
			up = up[:strings.LastIndexByte(up, '/')]
			if _, both := values[up]; both {
				return fmt.Errorf("values: %s has a value and %s below it", up, path)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values = maps.Clone(values)
	return nil
}

// below returns the values at and below a path; "" returns all.
func (m *metadata) below(path string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make(map[string]string)
	for p, value := range m.values {
		if path == "" || p == path || strings.HasPrefix(p, path+"/") {
			found[p] = value
		}
	}
	return found
}

// text returns the response for a path: its value, or the names below it, one per line.
// A name with further names below it ends in a slash.
func (m *metadata) text(path string) (text string, ok bool) {
	found := m.below(path)
	if value, leaf := found[path]; leaf && path != "" {
		return value, true
	}
	names := make(map[string]bool)
	for p := range found {
		name, more, folder := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(p, path), "/"), "/")
		if folder && more != "" {
			name += "/"
		}
		names[name] = true
	}
	if len(names) == 0 {
		return "", path == ""
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), "\n") + "\n", true
}

// metadataServer implements pod.v1's MetadataService.
type metadataServer struct{ d *Daemon }

// SetMetadata implements pod.v1's MetadataService.
func (s *metadataServer) SetMetadata(_ context.Context, req *connect.Request[podv1.SetMetadataRequest]) (*connect.Response[podv1.SetMetadataResponse], error) {
	if err := s.d.meta.set(req.Msg.GetValues()); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	return connect.NewResponse(&podv1.SetMetadataResponse{}), nil
}

// errNoMetadata is returned for a path that does not exist.
var errNoMetadata = errors.New("no such metadata: GET /v1/meta-data lists the paths that exist")
