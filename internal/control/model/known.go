package model

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

//go:embed known.json
var knownJSON []byte

type known struct {
	Prefix    string `json:"prefix"`
	Window    int    `json:"window"`
	MaxOutput int    `json:"maxOutput"`
	TextOnly  bool   `json:"textOnly"`
}

// What is assumed of a model that known.json does not list. A window that is
// smaller in truth shows itself as [TooLong].
const (
	unknownWindow    = 128_000
	unknownMaxOutput = 16_384
)

var knownModels = sync.OnceValue(func() []known {
	var list []known
	if err := json.Unmarshal(knownJSON, &list); err != nil {
		panic(fmt.Sprintf("model: known.json: %v", err)) // embedded: any test finds it
	}
	return list
})

// Lookup returns what is known of the model that a provider calls by that
// name: the longest prefix in known.json, whatever stands before the last
// slash and whatever the case. ID and DisplayName are the name itself.
func Lookup(name string) Info {
	info := Info{ID: name, DisplayName: name, ContextWindow: unknownWindow, MaxOutput: unknownMaxOutput, Images: true}
	bare := strings.ToLower(name[strings.LastIndex(name, "/")+1:])
	best := ""
	for _, k := range knownModels() {
		if strings.HasPrefix(bare, k.Prefix) && len(k.Prefix) > len(best) {
			best = k.Prefix
			info.ContextWindow, info.MaxOutput, info.Images = k.Window, k.MaxOutput, !k.TextOnly
		}
	}
	return info
}
