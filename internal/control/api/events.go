package api

import (
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"aloft/internal/agent"

	"github.com/danielgtaylor/huma/v2"
)

// listEvents is the operation whose lines are events; journalEvent is the name
// of their schema.
const (
	listEvents   = "listAgentEvents"
	journalEvent = "JournalEvent"
)

// withinJSON is the JSON form of [agent.Within].
type withinJSON struct {
	CallID string          `json:"callId"`
	Kind   string          `json:"kind" doc:"the kind of the subagent's event"`
	Data   json.RawMessage `json:"data" doc:"the data of an event of that kind"`
}

// A namer names schemas. Types of journal events get the prefix Journal,
// because types of the API may have the same names. Types of packages other
// than agent also get the name of their package.
type namer struct {
	journal bool // whether the schemas of events are being described
	names   map[reflect.Type]string
}

func (n *namer) name(t reflect.Type, hint string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() == "" || t.Name() == "" {
		return schemaName(t, hint)
	}
	if _, known := n.names[t]; !known {
		n.names[t] = schemaName(t, hint)
		if n.journal {
			from := ""
			if t.PkgPath() != reflect.TypeFor[agent.Event]().PkgPath() {
				from = path.Base(t.PkgPath())
				from = strings.ToUpper(from[:1]) + from[1:]
			}
			n.names[t] = "Journal" + from + n.names[t]
		}
	}
	return n.names[t]
}

// describeEvents adds the schema of each kind of event, and their union
// [journalEvent], which kind discriminates.
func describeEvents(reg huma.Registry, n *namer) {
	before := maps.Clone(reg.Map())
	n.journal = true
	n.names[reflect.TypeFor[withinJSON]()] = "JournalWithin"
	reg.RegisterTypeAlias(reflect.TypeFor[agent.Within](), reflect.TypeFor[withinJSON]())
	reg.RegisterTypeAlias(reflect.TypeFor[json.RawMessage](), reflect.TypeFor[any]()) // raw JSON is not base64
	kinds := agent.Kinds()
	union := &huma.Schema{Discriminator: &huma.Discriminator{PropertyName: "kind", Mapping: map[string]string{}}}
	lines := map[string]*huma.Schema{}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		body := reg.Schema(kinds[kind], true, "")
		name := "Journal" + kinds[kind].Name() + "Event"
		lines[name] = &huma.Schema{
			Type: huma.TypeObject,
			Properties: map[string]*huma.Schema{
				"seq":   {Type: huma.TypeInteger, Format: "int64", Description: "counts from 1 per agent, without gaps"},
				"time":  {Type: huma.TypeString, Format: "date-time"},
				"runId": {Type: huma.TypeString, Description: "absent if the event belongs to no run"},
				"kind":  {Type: huma.TypeString, Enum: []any{kind}},
				"data":  body,
			},
			Required: []string{"seq", "time", "kind", "data"},
		}
		union.OneOf = append(union.OneOf, &huma.Schema{Ref: schemas + name})
		union.Discriminator.Mapping[kind] = schemas + name
	}
	complete(reg)
	for name, s := range reg.Map() {
		if before[name] != nil {
			continue
		}
		// Allow further fields, which later versions add.
		s.AdditionalProperties = nil
		for field, of := range s.Properties {
			// The validator of the description does not support the type null,
			// so a list that may be null is described as optional.
			if of.Nullable {
				of.Nullable = false
				s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == field })
			}
		}
	}
	maps.Copy(reg.Map(), lines)
	reg.Map()[journalEvent] = union
}
