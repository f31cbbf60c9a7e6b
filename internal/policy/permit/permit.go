// Package permit decides how a tool call is treated before it is sent to a
// machine: run it, run it in the sandbox, ask the classifier, or ask a person.
// It parses permissions.json and implements the order of checks of the run
// modes. It does no I/O.
package permit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"aloft/internal/policy/pattern"
	"aloft/internal/policy/shell"
	"aloft/internal/text"
)

// MaxFile is the maximum size of a permissions.json in bytes.
const MaxFile = 1 << 20

// maxEntries is the maximum number of entries of a list: each command of a line is
// compared with each entry.
const maxEntries = 1000

// Permissions are the content of permissions.json. A nil list was missing in
// the file; an empty list was present and has no entries.
type Permissions struct {
	MCPAllowlist      []string // entries server:tool, case-insensitive, * for any text
	TerminalAllowlist []string // see [shell.Compile]
	// Instructions for the classifier about calls to allow and calls to block.
	AllowInstructions []string
	BlockInstructions []string
}

// Parse parses a permissions.json, which may contain comments and trailing commas.
// Unknown keys are ignored. For an invalid file the error names the file and the key. On
// error, callers must not assume that the file blocks nothing.
func Parse(file string, data []byte) (Permissions, error) {
	var p Permissions
	if len(data) > MaxFile {
		return p, fmt.Errorf("%s is longer than %d bytes", file, MaxFile)
	}
	data = []byte(strings.TrimPrefix(string(data), "\ufeff"))
	if len(strings.TrimSpace(string(data))) == 0 {
		return p, nil
	}
	if err := text.CheckJSON(data); err != nil {
		return p, fmt.Errorf("%s: %w", file, err)
	}
	plain, err := hujson.Standardize(slices.Clone(data))
	if err != nil {
		return p, fmt.Errorf("%s: %w", file, err)
	}
	top, err := object(file, "the file", plain)
	if err != nil {
		return p, err
	}
	for key, to := range map[string]*[]string{"mcpAllowlist": &p.MCPAllowlist, "terminalAllowlist": &p.TerminalAllowlist} {
		if *to, err = list(file, key, top[key]); err != nil {
			return Permissions{}, err
		}
	}
	if top["autoRun"] == nil {
		return p, nil
	}
	auto, err := object(file, "autoRun", top["autoRun"])
	if err != nil {
		return Permissions{}, err
	}
	for key, to := range map[string]*[]string{"allow_instructions": &p.AllowInstructions, "block_instructions": &p.BlockInstructions} {
		if *to, err = list(file, "autoRun."+key, auto[key]); err != nil {
			return Permissions{}, err
		}
	}
	return p, nil
}

func object(file, key string, data []byte) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%s: %s must be an object, {…}", file, key)
	}
	return m, nil
}

func list(file, key string, data json.RawMessage) ([]string, error) {
	if data == nil || string(data) == "null" {
		return nil, nil
	}
	out := []string{}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("%s: %s must be a list of strings, [\"…\"]", file, key)
	}
	if len(out) > maxEntries {
		return nil, fmt.Errorf("%s: %s has %d entries; at most %d are allowed", file, key, len(out), maxEntries)
	}
	return out, nil
}

// Merge combines several files, such as those of a user and a project.
func Merge(files ...Permissions) Permissions {
	var all Permissions
	for _, p := range files {
		join(&all.MCPAllowlist, p.MCPAllowlist)
		join(&all.TerminalAllowlist, p.TerminalAllowlist)
		join(&all.AllowInstructions, p.AllowInstructions)
		join(&all.BlockInstructions, p.BlockInstructions)
	}
	return all
}

func join(to *[]string, more []string) {
	if more == nil {
		return
	}
	if *to == nil {
		*to = []string{}
	}
	for _, m := range more {
		if !slices.Contains(*to, m) {
			*to = append(*to, m)
		}
	}
}

// Restrictions returns the part of p that can only restrict: the block
// instructions.
func (p Permissions) Restrictions() Permissions {
	return Permissions{BlockInstructions: p.BlockInstructions}
}

// AllowsMCP returns the entry that allows a tool of an MCP server, or "" if
// there is none.
func (p Permissions) AllowsMCP(server, tool string) string {
	for _, e := range p.MCPAllowlist {
		s, t, ok := strings.Cut(e, ":")
		if ok && s != "" && t != "" && pattern.Match(strings.ToLower(s), strings.ToLower(server)) && pattern.Match(strings.ToLower(t), strings.ToLower(tool)) {
			return e
		}
	}
	return ""
}

// JudgeLine judges a shell command line by the allow list.
func (p Permissions) JudgeLine(line string) shell.Verdict {
	return shell.Compile(p.TerminalAllowlist).Judge(line)
}
