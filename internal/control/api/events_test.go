package api

import (
	"path"
	"reflect"
	"strings"
	"testing"

	"aloft/internal/agent"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestEventsAreDescribed checks that a registered event needs no further work:
// the API description contains every kind of event with every field.
func TestEventsAreDescribed(t *testing.T) {
	d, err := describe((&server{}).routes(), "0")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(d.json)
	if err != nil {
		t.Fatal(err)
	}
	line := doc.Paths.Find("/v1/agents/{id}/events").Get.Responses.Status(200).Value.Content.Get("application/x-ndjson").Schema
	if line.Value.Discriminator == nil || line.Value.Discriminator.PropertyName != "kind" {
		t.Fatalf("the events are not a union by kind: %+v", line.Value)
	}
	kinds := agent.Kinds()
	if len(line.Value.OneOf) != len(kinds) {
		t.Errorf("%d events are described, want %d", len(line.Value.OneOf), len(kinds))
	}
	for kind, of := range kinds {
		s := doc.Components.Schemas[path.Base(line.Value.Discriminator.Mapping[kind])]
		if s == nil {
			t.Errorf("%s is not described", kind)
			continue
		}
		data := s.Value.Properties["data"]
		if of == reflect.TypeFor[agent.Within]() {
			of = reflect.TypeFor[withinJSON]()
		}
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && name != "-" && data.Value.Properties[name] == nil {
				t.Errorf("%s has no %s", kind, name)
			}
		}
		if got := s.Value.Properties["kind"].Value.Enum; len(got) != 1 || got[0] != kind {
			t.Errorf("%s has the kinds %v", kind, got)
		}
	}
}
