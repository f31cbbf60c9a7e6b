package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"aloft/internal/policy"
	"aloft/internal/text"
)

// Files are the paths of sandbox.json relative to the home folder and to the
// repository. Only the first existing one is read.
var Files = []string{".aloft/sandbox.json", ".cursor/sandbox.json"}

// Layer is one sandbox.json. Unset fields are nil or empty.
type Layer struct {
	Type                   Type          `json:"type,omitempty"`
	ReadWritePaths         []string      `json:"additionalReadwritePaths,omitempty"`
	ReadOnlyPaths          []string      `json:"additionalReadonlyPaths,omitempty"`
	ReadPaths              []string      `json:"additionalReadPaths,omitempty"`
	ReadBoundary           Boundary      `json:"readBoundary,omitempty"`
	DisableTmpWrite        *bool         `json:"disableTmpWrite,omitempty"`
	EnableSharedBuildCache *bool         `json:"enableSharedBuildCache,omitempty"`
	Network                *NetworkRules `json:"networkPolicy,omitempty"`
	// Unknown lists unknown keys, from typos or newer versions, so that the
	// caller can warn about them.
	Unknown []string `json:"-"`
}

// NetworkRules are a file's rules about the network.
type NetworkRules struct {
	Default string   `json:"default,omitempty"` // allow or deny
	Allow   []string `json:"allow,omitempty"`
	Deny    []string `json:"deny,omitempty"`
}

var known = []string{
	"type", "additionalReadwritePaths", "additionalReadonlyPaths", "additionalReadPaths", "readBoundary",
	"disableTmpWrite", "enableSharedBuildCache", "networkPolicy", "$schema",
}

// maxEntries is the maximum length of each list in a file.
const maxEntries = 10_000

// Parse parses a sandbox.json, which may contain comments and trailing commas.
// The error names the invalid key and the valid values.
func Parse(file []byte) (*Layer, error) {
	if err := text.CheckJSON(file); err != nil {
		return nil, err
	}
	plain, err := hujson.Standardize(file)
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(plain, &keys); err != nil || keys == nil {
		return nil, errors.New("not a JSON object: it must begin with {")
	}
	exact := map[string]json.RawMessage{}
	l := &Layer{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if slices.Contains(known, key) {
			exact[key] = keys[key] // the decoder would accept keys in any case
		} else {
			l.Unknown = append(l.Unknown, key)
		}
	}
	again, err := json.Marshal(exact)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(again, l); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("%s is a %s: it must be a %s", wrong.Field, wrong.Value, wrong.Type)
		}
		return nil, err
	}
	return l, l.check()
}

func (l *Layer) check() error {
	if l.Type != "" && !slices.Contains(strictness, l.Type) {
		return fmt.Errorf("type is %q: it must be workspace_readwrite, workspace_readonly or insecure_none", l.Type)
	}
	if l.ReadBoundary != "" && l.ReadBoundary != System && l.ReadBoundary != Workspace {
		return fmt.Errorf("readBoundary is %q: it must be system or workspace", l.ReadBoundary)
	}
	for key, paths := range map[string][]string{
		"additionalReadwritePaths": l.ReadWritePaths, "additionalReadonlyPaths": l.ReadOnlyPaths, "additionalReadPaths": l.ReadPaths,
	} {
		if len(paths) > maxEntries {
			return fmt.Errorf("%s has %d entries: the limit is %d", key, len(paths), maxEntries)
		}
		for _, p := range paths {
			if p == "" || strings.ContainsRune(p, 0) {
				return fmt.Errorf("%s: %q is not a path", key, p)
			}
			if key == "additionalReadwritePaths" && path.Clean(p) == "/" {
				return fmt.Errorf("%s: / would leave nothing to protect: name the folders in it, or set type to insecure_none", key)
			}
		}
	}
	if l.Network == nil {
		return nil
	}
	if d := l.Network.Default; d != "" && d != "allow" && d != "deny" {
		return fmt.Errorf("networkPolicy.default is %q: it must be allow or deny", d)
	}
	if len(l.Network.Allow)+len(l.Network.Deny) > maxEntries {
		return fmt.Errorf("networkPolicy has more than %d entries", maxEntries)
	}
	if _, err := (policy.Network{Mode: policy.List, Allow: l.Network.Allow, Deny: l.Network.Deny}).Compile(); err != nil {
		return fmt.Errorf("networkPolicy: %w", err)
	}
	return nil
}
