// Package plugin defines plugin bundles of repositories: one folder with a manifest, and
// with rules, skills, commands, subagents, hooks and MCP servers beside it.
package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Manifest is the file that makes a folder a plugin, relative to that folder.
const Manifest = ".cursor-plugin/plugin.json"

// Folders are the folders of a repository that contain plugins, each in its own folder.
// The root of a repository may be a plugin, too.
var Folders = []string{".cursor/plugins", ".aloft/plugins"}

// The parts of a plugin, relative to its folder.
const (
	Rules    = "rules"
	Skills   = "skills"
	Commands = "commands"
	Agents   = "agents"
	Hooks    = "hooks/hooks.json"
	Servers  = "mcp.json"
)

// Limits.
const (
	Max         = 20       // plugins of one repository
	MaxManifest = 16 << 10 // bytes
)

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$`)

// moved are keys of a manifest that say where a part is. The parts of the plugins that
// this package finds are at their usual places.
var moved = []string{"rules", "skills", "commands", "agents", "hooks", "mcpServers"}

// Parse checks a manifest and returns the plugin's name. The complaints name the parts of
// the manifest that have no effect.
func Parse(data []byte) (name string, complaints []string, err error) {
	if len(data) > MaxManifest {
		return "", nil, fmt.Errorf("has more than %d bytes", MaxManifest)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &keys); err != nil {
		return "", nil, errors.New("is not a JSON object")
	}
	if json.Unmarshal(keys["name"], &name) != nil || !nameForm.MatchString(name) {
		return "", nil, fmt.Errorf("has no valid name (%.80s): use lower-case letters, digits, hyphens and dots", string(keys["name"]))
	}
	for _, key := range moved {
		if keys[key] != nil {
			complaints = append(complaints, key+" has no effect: the parts of a plugin are read from their usual places")
		}
	}
	return name, complaints, nil
}

// Roots returns the folders of the plugins in [Folders] whose manifests are among the
// files of a repository, in order and at most [Max]. The files may be in any order.
func Roots(files []string) (roots []string) {
	for _, file := range files {
		root, ok := strings.CutSuffix(file, "/"+Manifest)
		if ok && slices.Contains(Folders, path.Dir(root)) {
			roots = append(roots, root)
		}
	}
	slices.SortFunc(roots, func(a, b string) int {
		if i, j := slices.Index(Folders, path.Dir(a)), slices.Index(Folders, path.Dir(b)); i != j {
			return i - j
		}
		return strings.Compare(a, b)
	})
	return roots[:min(len(roots), Max)]
}
