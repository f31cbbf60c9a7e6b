package model

import (
	"encoding/json"
	"strings"
)

// ReadObject decodes a model's reply, which must be one JSON object. It accepts
// an object within a code block, because not all providers enforce the format.
func ReadObject(text string, to any) error {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```json"); ok {
		text = strings.TrimSpace(strings.TrimSuffix(inner, "```"))
	}
	return json.Unmarshal([]byte(text), to)
}
