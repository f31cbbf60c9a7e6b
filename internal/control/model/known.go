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

	// By is the provider whose API the other fields describe.
	By       string   `json:"by"`
	Thinking Mode     `json:"thinking"`
	Effort   []string `json:"effort"`
	Long     bool     `json:"long"`
	LongBeta bool     `json:"longBeta"`
	Schema   bool     `json:"schema"`
}

// Defaults for models that are not in known.json. If the real window is
// smaller, requests fail with [TooLong].
const (
	unknownWindow    = 128_000
	unknownMaxOutput = 16_384
)

var knownModels = sync.OnceValue(func() []known {
	var list []known
	if err := json.Unmarshal(knownJSON, &list); err != nil {
		panic(fmt.Sprintf("model: known.json: %v", err)) // the file is embedded, so any test finds this
	}
	return list
})

// Lookup returns what is known about the model with the given name at a
// provider. It uses the longest matching prefix in known.json, ignoring case
// and everything before the last slash. Names of Claude models may have a
// prefix with a region and a vendor, and dots in their versions, as gateways
// write them. The returned ID and DisplayName are the name itself.
func Lookup(name string) Info {
	info := Info{ID: name, DisplayName: name, ContextWindow: unknownWindow, MaxOutput: unknownMaxOutput, Images: true}
	bare := strings.ToLower(name[strings.LastIndex(name, "/")+1:])
	if i := strings.Index(bare, "claude-"); i >= 0 {
		bare = strings.ReplaceAll(bare[i:], ".", "-")
	}
	best := ""
	for _, k := range knownModels() {
		if strings.HasPrefix(bare, k.Prefix) && len(k.Prefix) > len(best) {
			best = k.Prefix
			info.ContextWindow, info.MaxOutput, info.Images = k.Window, k.MaxOutput, !k.TextOnly
			info.Traits = Traits{k.By, k.Thinking, k.Effort, k.Long, k.LongBeta, k.Schema}
		}
	}
	return info
}
