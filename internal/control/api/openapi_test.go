package api

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDescriptionHasTheSpecification(t *testing.T) {
	h := newHouse(t)
	var ours struct {
		OpenAPI    string
		Info       struct{ Version string }
		Paths      map[string]map[string]struct{ OperationID string }
		Components struct {
			Schemas map[string]struct {
				Required   []string
				Properties map[string]any
			}
		}
	}
	a := h.want(h.callAs("", "GET", "/openapi.json", ""), 200)
	if err := json.Unmarshal(a.body, &ours); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(ours.OpenAPI, "3.1") || ours.Info.Version != "1.2.3" {
		t.Errorf("%s %s", ours.OpenAPI, ours.Info.Version)
	}
	spec, err := specification()
	if err != nil {
		t.Fatal(err)
	}
	for at, item := range spec["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			if want := op.(map[string]any)["operationId"]; ours.Paths[at][method].OperationID != want {
				t.Errorf("%s %s is %q, want %q", method, at, ours.Paths[at][method].OperationID, want)
			}
		}
	}
	schemas := spec["components"].(map[string]any)["schemas"].(map[string]any)
	later := map[string]bool{ // of parts that are not built
		"Agent.customSubagents": true, "RunUsage.usageUuid": true,
		"ModelListItem.description": true, "ModelListItem.parameters": true, "ModelListItem.variants": true,
	}
	for _, name := range []string{"AgentSummary", "Agent", "Run", "RunGit", "RunGitBranch", "CreateAgentRequest", "CreateRunRequest",
		"CreateAgentResponse", "CreateRunResponse", "ListAgentsResponse", "ListRunsResponse", "IdResponse", "AgentUsageResponse", "RunUsage",
		"UsageTokenUsage", "ApiKeyInfo", "ModelListItem", "ListModelsResponse", "Error", "Image", "ImageDimension", "ModelRef", "RepoConfig", "AgentEnv"} {
		mine, ok := ours.Components.Schemas[name]
		if !ok {
			t.Errorf("no schema %s", name)
			continue
		}
		parts := []any{schemas[name]}
		if all, ok := schemas[name].(map[string]any)["allOf"].([]any); ok {
			parts = all
		}
		for _, part := range parts {
			if ref, ok := part.(map[string]any)["$ref"].(string); ok {
				part = schemas[path.Base(ref)]
			}
			props, _ := part.(map[string]any)["properties"].(map[string]any)
			for p := range props {
				if mine.Properties[p] == nil && !later[name+"."+p] {
					t.Errorf("schema %s has no %s", name, p)
				}
			}
		}
	}
	if a := h.want(h.callAs("", "GET", "/openapi.yaml", ""), 200); !strings.Contains(string(a.body), "operationId: createAgent") {
		t.Error("the YAML form is another")
	}
}

// The description that people read is the one that is served.
func TestDescriptionFile(t *testing.T) {
	d, err := describe((&server{}).routes(), "0")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "..", "..", "docs", "reference", "openapi.yaml")
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, d.yaml, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), string(d.yaml)); diff != "" {
		t.Errorf("%s differs from the code; run go test ./internal/control/api -update\n%s", file, diff)
	}
}
