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

	// By is the provider whose API the rest is said of.
	By       string   `json:"by"`
	Thinking Mode     `json:"thinking"`
	Effort   []string `json:"effort"`
	Long     bool     `json:"long"`
	LongBeta bool     `json:"longBeta"`
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
// slash and whatever the case; names of Claude models may have a region and a vendor
// before them, and dots in their versions, as gateways write them. ID and DisplayName are the name itself.
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
			info.Traits = Traits{k.By, k.Thinking, k.Effort, k.Long, k.LongBeta}
		}
	}
	return info
}
