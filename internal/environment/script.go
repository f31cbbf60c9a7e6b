package environment

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// MaxScript is the maximum size of an update script in bytes.
const MaxScript = 64 << 10

// WithInstall returns the text of an environment.json with install replaced. The rest of
// the text, including comments, stays unchanged. An empty text counts as an empty
// object.
func WithInstall(text, install string) (string, error) { return withKey(text, "install", install) }

// WithSnapshot is like WithInstall for the key snapshot.
func WithSnapshot(text, id string) (string, error) { return withKey(text, "snapshot", id) }

func withKey(text, key, is string) (string, error) {
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	text = strings.TrimPrefix(text, "\ufeff")
	if _, err := readJSONC(text); err != nil { // hujson does not limit the nesting
		return "", fmt.Errorf("it cannot be read: %s", err.message)
	}
	value, err := hujson.Parse([]byte(text))
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
