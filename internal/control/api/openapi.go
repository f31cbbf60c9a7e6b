package api

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"aloft/internal/account"
	"aloft/internal/control/api/v0"

	"github.com/danielgtaylor/huma/v2"
)

// A document is the OpenAPI description in both formats.
type document struct{ json, yaml []byte }

func (s *server) serveOpenAPI(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	media, data := "application/json", s.openAPI.json
	if strings.HasSuffix(r.URL.Path, ".yaml") {
		media, data = "application/yaml", s.openAPI.yaml
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // the client has gone; nobody to report the error to
	return nil
}

const schemas = "#/components/schemas/"

// describe generates the OpenAPI description of the routes from their Go types.
func describe(routes []route, version string) (document, error) {
	if version == "" {
		version = "0.0.0"
	}
	reg := huma.NewMapRegistry(schemas, schemaName)
	api := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "Aloft", Version: version, Description: "Coding agents on your own machines."},
		Components: &huma.Components{Schemas: reg, SecuritySchemes: map[string]*huma.SecurityScheme{
			"bearerAuth": {Type: "http", Scheme: "bearer"},
			"basicAuth":  {Type: "http", Scheme: "basic", Description: "the API key as user name, with an empty password"},
		}},
		Security: []map[string][]string{{"basicAuth": {}}, {"bearerAuth": {}}},
	}
	failed := &huma.Response{Description: "Error", Content: map[string]*huma.MediaType{
		"application/json": {Schema: reg.Schema(reflect.TypeFor[errorJSON](), true, "Error")},
	}}
	failedBefore := &huma.Response{Description: "Error", Content: map[string]*huma.MediaType{
		"application/json": {Schema: reg.Schema(reflect.TypeFor[v0.Error](), true, "")},
	}}
	for _, rt := range routes {
		if strings.HasPrefix(rt.path, legacyPrefix) {
			api.AddOperation(operation(rt, reg, failedBefore))
			continue
		}
		api.AddOperation(operation(rt, reg, failed))
	}
	complete(reg)
	data, err := api.MarshalJSON()
	if err != nil {
		return document{}, fmt.Errorf("as JSON: %w", err)
	}
	yaml, err := api.YAML()
	if err != nil {
		return document{}, fmt.Errorf("as YAML: %w", err)
	}
	return document{data, yaml}, nil
}

// complete corrects huma's schemas where they differ from encoding/json.
// Objects may have additional fields unless the type forbids them, and the
// fields of an embedded struct belong to the embedding one, even if the
// embedded type is unexported.
func complete(reg huma.Registry) {
	done := map[string]bool{}
	for len(done) < len(reg.Map()) { // embedded types may add more schemas
		for name, s := range maps.Clone(reg.Map()) {
			if !done[name] {
				completeOf(reg, reg.TypeFromRef(schemas+name), s)
			}
			done[name] = true
		}
	}
}

func completeOf(reg huma.Registry, t reflect.Type, s *huma.Schema) {
	if t.Kind() != reflect.Struct {
		return
	}
	if _, said := t.FieldByName("_"); !said {
		s.AdditionalProperties = true
	}
	for f := range t.Fields() {
		if !f.Anonymous || f.IsExported() || f.Tag.Get("json") != "" {
			continue
		}
		of := huma.SchemaFromType(reg, f.Type)
		completeOf(reg, f.Type, of)
		maps.Copy(s.Properties, of.Properties)
		s.Required = append(slices.Clone(of.Required), s.Required...)
	}
}

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

func operation(rt route, reg huma.Registry, failed *huma.Response) *huma.Operation {
	op := &huma.Operation{
		Method: rt.method, Path: rt.path, OperationID: rt.id, Summary: rt.summary,
		Responses: map[string]*huma.Response{"default": failed},
	}
	if rt.open {
		op.Security = []map[string][]string{}
	}
	for _, m := range pathParam.FindAllStringSubmatch(rt.path, -1) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: m[1], In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	for _, p := range rt.query {
		op.Parameters = append(op.Parameters, p.describe("query"))
	}
	if rt.keeps() {
		op.Parameters = append(op.Parameters, idempotencyParam.describe("header"))
	}
	for _, p := range rt.header {
		op.Parameters = append(op.Parameters, p.describe("header"))
	}
	if rt.in != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: reg.Schema(reflect.TypeOf(rt.in), true, "")},
		}}
	}
	if rt.takes != "" {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			rt.takes: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}}
	}
	if rt.status < http.StatusBadRequest {
		ok := &huma.Response{Description: http.StatusText(rt.status)}
		switch {
		case rt.status == http.StatusSwitchingProtocols: // docs/reference/pty.md describes the rest
		case rt.out != nil:
			ok.Content = map[string]*huma.MediaType{"application/json": {Schema: reg.Schema(reflect.TypeOf(rt.out), true, "")}}
		case rt.media == "application/json":
			ok.Content = map[string]*huma.MediaType{rt.media: {Schema: &huma.Schema{Type: huma.TypeObject}}}
		default:
			ok.Content = map[string]*huma.MediaType{rt.media: {Schema: &huma.Schema{Type: huma.TypeString}}}
		}
		if rt.media == eventStream {
			ok.Headers = map[string]*huma.Param{"X-Cursor-Stream-Retention-Seconds": {Schema: &huma.Schema{Type: huma.TypeInteger}}}
		}
		op.Responses[strconv.Itoa(rt.status)] = ok
	}
	return op
}

func (p param) describe(in string) *huma.Param {
	s := &huma.Schema{Type: p.kind, Default: p.standard}
	if p.max > 0 {
		least, most := float64(p.min), float64(p.max)
		s.Minimum, s.Maximum = &least, &most
	}
	return &huma.Param{Name: p.name, In: in, Description: p.words, Schema: s}
}

// schemaName names schemas after their types: agentJSON becomes Agent, and
// v0.Agent becomes V0Agent.
func schemaName(t reflect.Type, hint string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() == reflect.TypeFor[v0.Agent]().PkgPath() {
		return "V0" + t.Name()
	}
	return strings.TrimSuffix(huma.DefaultSchemaNamer(t, hint), "JSON")
}
