package permit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// Add adds entries to a list in the text of a permissions.json:
// terminalAllowlist or mcpAllowlist. The rest of the file, including comments,
// stays unchanged. Existing entries are not added again.
func Add(data []byte, list string, entries []string) ([]byte, error) {
	p, err := Parse("permissions.json", data)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(string(data)) == "" {
		data = []byte("{}")
	}
	var have []string
	switch list {
	case "terminalAllowlist":
		have = p.TerminalAllowlist
	case "mcpAllowlist":
		have = p.MCPAllowlist
	default:
		return nil, fmt.Errorf("permissions.json has no list %q", list)
	}
	type change struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var changes []change
	if have == nil { // missing or null
		changes = append(changes, change{"add", "/" + list, []string{}})
	}
	for i, e := range entries {
		if !utf8.ValidString(e) {
			return nil, fmt.Errorf("the entry %q is not text", e)
		}
		if !slices.Contains(have, e) && !slices.Contains(entries[:i], e) {
			changes = append(changes, change{"add", "/" + list + "/-", e})
		}
	}
	if len(changes) == 0 {
		return data, nil
	}
	value, err := hujson.Parse(data)
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal(changes)
	if err != nil {
		return nil, err
	}
	if err := value.Patch(patch); err != nil {
		return nil, err
	}
	value.Format()
	return value.Pack(), nil
}
