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
	"aloft/internal/control/api/rest"
	v0 "aloft/internal/control/api/v0"

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
	_, _ = w.Write(data) // the client has disconnected; nobody to report the error to
	return nil
}

const schemas = "#/components/schemas/"

// describe generates the OpenAPI description of the routes from their Go types.
func describe(routes []rest.Route, version string) (document, error) {
	if version == "" {
		version = "0.0.0"
	}
	names := &namer{names: map[reflect.Type]string{}}
	reg := huma.NewMapRegistry(schemas, names.name)
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
		if strings.HasPrefix(rt.Path, legacyPrefix) {
			api.AddOperation(operation(rt, reg, failedBefore))
			continue
		}
		api.AddOperation(operation(rt, reg, failed))
	}
	complete(reg)
	describeEvents(reg, names)
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
// fields of an embedded struct belong to the embedding struct, even if the
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
	if _, hasMarker := t.FieldByName("_"); !hasMarker {
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

func operation(rt rest.Route, reg huma.Registry, failed *huma.Response) *huma.Operation {
	op := &huma.Operation{
		Method: rt.Method, Path: rt.Path, OperationID: rt.ID, Summary: rt.Summary,
		Responses: map[string]*huma.Response{"default": failed},
	}
	if rt.Open {
		op.Security = []map[string][]string{}
	}
	for _, m := range pathParam.FindAllStringSubmatch(rt.Path, -1) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: m[1], In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	for _, p := range rt.Query {
		op.Parameters = append(op.Parameters, describeParam(p, "query"))
	}
	if keeps(rt) {
		op.Parameters = append(op.Parameters, describeParam(rest.IdempotencyParam, "header"))
	}
	for _, p := range rt.Header {
		op.Parameters = append(op.Parameters, describeParam(p, "header"))
	}
	if rt.In != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: reg.Schema(reflect.TypeOf(rt.In), true, "")},
		}}
	}
	if rt.Takes != "" {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			rt.Takes: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}}
	}
	if rt.Status < http.StatusBadRequest {
		ok := &huma.Response{Description: http.StatusText(rt.Status)}
		switch {
		case rt.Status == http.StatusSwitchingProtocols: // docs/reference/pty.md describes the rest
		case rt.Out != nil:
			ok.Content = map[string]*huma.MediaType{"application/json": {Schema: reg.Schema(reflect.TypeOf(rt.Out), true, "")}}
		case rt.ID == listEvents:
			ok.Description = "one event on each line"
			ok.Content = map[string]*huma.MediaType{rt.Media: {Schema: &huma.Schema{Ref: schemas + journalEvent}}}
		case rt.Media == "application/json":
			ok.Content = map[string]*huma.MediaType{rt.Media: {Schema: &huma.Schema{Type: huma.TypeObject}}}
		default:
			ok.Content = map[string]*huma.MediaType{rt.Media: {Schema: &huma.Schema{Type: huma.TypeString}}}
		}
		if rt.Media == rest.EventStream {
			ok.Headers = map[string]*huma.Param{"X-Cursor-Stream-Retention-Seconds": {Schema: &huma.Schema{Type: huma.TypeInteger}}}
		}
		op.Responses[strconv.Itoa(rt.Status)] = ok
	}
	return op
}

func describeParam(p rest.Param, in string) *huma.Param {
	s := &huma.Schema{Type: p.Kind, Default: p.Standard}
	if p.Max > 0 {
		least, most := float64(p.Min), float64(p.Max)
		s.Minimum, s.Maximum = &least, &most
	}
	return &huma.Param{Name: p.Name, In: in, Description: p.Words, Schema: s}
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
	name := strings.TrimSuffix(huma.DefaultSchemaNamer(t, hint), "JSON")
	for _, initialism := range []string{"ID", "MCP"} { // schema names that clients use predate Go's spelling of initialisms
		if suffix, ok := strings.CutPrefix(name, initialism); ok {
			return initialism[:1] + strings.ToLower(initialism[1:]) + suffix
		}
	}
	return name
}
