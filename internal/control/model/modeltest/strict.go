package modeltest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// strict decodes data into v and rejects unknown fields.
func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// checkTool rejects tools that all providers reject.
func checkTool(seen map[string]bool, i int, name string, schema json.RawMessage) error {
	if !toolName.MatchString(name) {
		return fmt.Errorf("tools.%d.name: String should match pattern '%s'", i, toolName)
	}
	if seen[name] {
		return fmt.Errorf("tools: Tool names must be unique (%s)", name)
	}
	seen[name] = true
	var s struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(schema, &s); err != nil || s.Type != "object" {
		return fmt.Errorf("tools.%d: schema must be a JSON Schema of 'type: \"object\"'", i)
	}
	return nil
}

// checkFormat rejects formats of replies that providers with strict schemas
// reject: every object must list all its properties as required, and allow no
// other properties.
func checkFormat(kind string, schema json.RawMessage) error {
	var s struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		Additional *bool                      `json:"additionalProperties"`
	}
	if kind != "json_schema" {
		return fmt.Errorf("type: %q is not json_schema", kind)
	}
	if err := json.Unmarshal(schema, &s); err != nil || s.Type != "object" || s.Additional == nil || *s.Additional || len(s.Required) != len(s.Properties) {
		return errors.New("schema: 'additionalProperties' is required to be supplied and to be false, and 'required' must include every key in properties")
	}
	return nil
}

func checkImage(mediaType, data string) error {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return fmt.Errorf("image media type %q is not supported", mediaType)
	}
	if b, err := base64.StdEncoding.DecodeString(data); err != nil || len(b) == 0 {
		return errors.New("image data is not base64, or empty")
	}
	return nil
}

func checkDataURL(u string) error {
	kind, data, ok := strings.Cut(strings.TrimPrefix(u, "data:"), ";base64,")
	if !ok || !strings.HasPrefix(u, "data:") {
		return fmt.Errorf("image_url %.40q is not a data URL", u)
	}
	return checkImage(kind, data)
}

// checkArguments rejects arguments that are not a JSON object.
func checkArguments(args string) error {
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &o) != nil || o == nil {
		return fmt.Errorf("arguments %.40q are not a JSON object", args)
	}
	return nil
}

// sign returns the signature for a reasoning text, which the server later uses
// to check that the text came back unchanged.
func sign(words string) string {
	sum := sha256.Sum256([]byte("modeltest " + words))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// ledger matches calls with results, for APIs in which a conversation is one
// list of items.
type ledger struct {
	seen, open map[string]bool
}

func newLedger() ledger { return ledger{seen: map[string]bool{}, open: map[string]bool{}} }

func (l ledger) call(id string) error {
	if id == "" {
		return errors.New("a call has no id")
	}
	if l.seen[id] {
		return fmt.Errorf("call id %q is not unique", id)
	}
	l.seen[id], l.open[id] = true, true
	return nil
}

func (l ledger) result(id string) error {
	if !l.open[id] {
		return fmt.Errorf("No tool call found for function call output with call_id %s.", id)
	}
	delete(l.open, id)
	return nil
}

// checkResults rejects calls without a result.
func (l ledger) checkResults() error {
	for id := range l.open {
		return fmt.Errorf("No tool output found for function call %s.", id)
	}
	return nil
}

func bearer(want string) error {
	if want != "Bearer "+Key {
		return errors.New("Incorrect API key provided. You can find your API key in the settings.")
	}
	return nil
}
