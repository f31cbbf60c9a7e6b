package model

import (
	"encoding/json"
	"strings"
)

// ReadObject decodes a model's reply that has to be one JSON object. Models
// whose provider cannot enforce that may put it into a block of code.
func ReadObject(text string, to any) error {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```json"); ok {
		text = strings.TrimSpace(strings.TrimSuffix(inner, "```"))
	}
	return json.Unmarshal([]byte(text), to)
}
