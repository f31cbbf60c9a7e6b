package api

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
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
	later := map[string]bool{ // features that are not built yet
		"RunUsage.usageUuid":        true,
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

// The published description equals the description that the server returns.
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

// The description is valid OpenAPI, and contains every field that a route
// accepts or returns.
func TestDescriptionIsWhole(t *testing.T) {
	routes := (&server{}).routes()
	d, err := describe(routes, "0")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(d.json)
	if err != nil {
		t.Fatal(err)
	}
	// OpenAPI 3.1 allows these fields, but the validator does not know them.
	if err := doc.Validate(t.Context(), openapi3.AllowExtraSiblingFields("contentMediaType", "contentEncoding")); err != nil {
		t.Error(err)
	}
	for _, rt := range routes {
		op := doc.Paths.Find(rt.Path).GetOperation(rt.Method)
		if rt.In != nil {
			describes(t, rt.ID, op.RequestBody.Value.Content.Get("application/json").Schema, full(reflect.TypeOf(rt.In)))
		}
		if rt.Out != nil {
			describes(t, rt.ID, op.Responses.Status(rt.Status).Value.Content.Get("application/json").Schema, full(reflect.TypeOf(rt.Out)))
		}
	}
}

// full returns a value of the type in which every field is set, as decoded
// JSON.
func full(t reflect.Type) any {
	v := reflect.New(t).Elem()
	fill(v)
	data, err := json.Marshal(v.Interface())
	if err != nil {
		panic(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}

func fill(v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte("1"))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		one := reflect.New(v.Type().Elem()).Elem()
		fill(one)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), one)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() || v.Type().Field(i).Anonymous {
				fill(f)
			}
		}
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else if v.CanFloat() {
			v.SetFloat(1)
		}
	}
}

// describes fails the test for each field of the value that the schema lacks.
func describes(t *testing.T, at string, ref *openapi3.SchemaRef, value any) {
	t.Helper()
	s := ref.Value
	switch v := value.(type) {
	case []any:
		describes(t, at+"[]", s.Items, v[0])
	case map[string]any:
		for name, field := range v {
			switch p := s.Properties[name]; {
			case p != nil:
				describes(t, at+"."+name, p, field)
			case s.AdditionalProperties.Schema != nil:
				describes(t, at+"."+name, s.AdditionalProperties.Schema, field)
			case len(s.Properties) > 0:
				t.Errorf("%s has no %s", at, name)
			}
		}
	}
}
