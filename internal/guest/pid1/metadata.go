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

// Bounds of the metadata.
const (
	maxMetadata      = 256
	maxMetadataValue = 16 << 10 // bytes
)

var metadataPath = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(/[a-z0-9][a-z0-9-]*){0,7}$`)

// metadata is what the control plane has told of the machine's purpose: text
// by path. It is a tree: no path is another's folder and a value at once. The
// zero value is empty; its methods are safe for concurrent use.
type metadata struct {
	mu     sync.Mutex
	values map[string]string
}

// set replaces everything.
func (m *metadata) set(values map[string]string) error {
	if len(values) > maxMetadata {
		return fmt.Errorf("values: %d are too many; at most %d", len(values), maxMetadata)
	}
	for path, value := range values {
		switch {
		case !metadataPath.MatchString(path):
			return fmt.Errorf("values: %.100q is no path: write it as agent/id", path)
		case len(value) > maxMetadataValue || strings.ContainsRune(value, 0):
			return fmt.Errorf("values: that of %s is longer than %d KiB, or holds a NUL byte", path, maxMetadataValue>>10)
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

// below returns the values at and below a path; "" is all.
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

// text is what a GET of a path says: a value, or what is in a folder, one name
// a line, folders with a slash at their end.
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

// metadataServer is pod.v1's MetadataService.
type metadataServer struct{ d *Daemon }

// SetMetadata is pod.v1's.
func (s *metadataServer) SetMetadata(_ context.Context, req *connect.Request[podv1.SetMetadataRequest]) (*connect.Response[podv1.SetMetadataResponse], error) {
	if err := s.d.meta.set(req.Msg.GetValues()); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	return connect.NewResponse(&podv1.SetMetadataResponse{}), nil
}

// errNoMetadata is a path that nothing is at.
var errNoMetadata = errors.New("there is no such metadata: /v1/meta-data lists what there is")
