package environment

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// MaxScript is how many bytes an update script may have.
const MaxScript = 64 << 10

// WithInstall returns the text of an environment.json with another install.
// What else stands in it stays as it is, comments too. "" is an empty one.
func WithInstall(text, install string) (string, error) { return with(text, "install", install) }

// WithSnapshot is the same for the snapshot that it begins with.
func WithSnapshot(text, id string) (string, error) { return with(text, "snapshot", id) }

func with(text, key, is string) (string, error) {
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	value, err := hujson.Parse([]byte(strings.TrimPrefix(text, "\ufeff")))
	if err != nil {
		return "", fmt.Errorf("it cannot be read: %w", err)
	}
	patch, err := json.Marshal([]map[string]string{{"op": "add", "path": "/" + key, "value": is}})
	if err != nil {
		return "", err
	}
	if err := value.Patch(patch); err != nil {
		return "", fmt.Errorf("it cannot be changed: %w", err)
	}
	value.Format()
	return value.String(), nil
}
