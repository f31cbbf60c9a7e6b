package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"aloft/internal/wire/agentv1"
)

// schema is the part of JSON schema that tool arguments need. Its fields are in
// output order.
type schema struct {
	Type        string     `json:"type,omitempty"`
	Description string     `json:"description,omitempty"`
	Enum        []string   `json:"enum,omitempty"`
	Items       *schema    `json:"items,omitempty"`
	Properties  properties `json:"properties,omitempty"`
	Required    []string   `json:"required,omitempty"`
	Most        int        `json:"maxProperties,omitempty"`
	Additional  *bool      `json:"additionalProperties,omitempty"`
}

// properties are in the order of the message's fields, since a model tends to write
// properties in the order in which it reads them.
type properties []property

type property struct {
	name   string
	schema *schema
}

// MarshalJSON encodes the properties as an object.
func (p properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, one := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(one.schema)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// schemaOf returns the schema of a message. It returns an error if the arguments are
// nested too deeply for a model to write.
func schemaOf(m protoreflect.MessageDescriptor, depth int) (*schema, error) {
	if depth > 4 {
		return nil, fmt.Errorf("%s: the arguments of a tool are nested too deep", m.FullName())
	}
	no := false
	s := &schema{Type: "object", Properties: properties{}, Additional: &no}
	if m.Oneofs().Len() == 1 && m.Oneofs().Get(0).Fields().Len() == m.Fields().Len() && !m.Oneofs().Get(0).IsSynthetic() {
		s.Most = 1
	}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		var options descriptorpb.FieldOptions
		if err := convert(f.Options(), &options); err != nil {
			return nil, fmt.Errorf("%s: %w", f.FullName(), err)
		}
		if isSet(&options, agentv1.E_Internal) {
			continue
		}
		one, err := &schema{Type: "string"}, error(nil)
		if !isSet(&options, agentv1.E_AsText) {
			one, err = fieldSchema(f, depth)
		}
		if err != nil {
			return nil, err
		}
		one.Description = commentOf(f)
		s.Properties = append(s.Properties, property{nameOf(f), one})
		if isSet(&options, agentv1.E_Required) {
			s.Required = append(s.Required, nameOf(f))
		}
	}
	return s, nil
}

func isSet(options proto.Message, x protoreflect.ExtensionType) bool {
	on, _ := proto.GetExtension(options, x).(bool)
	return on
}

// nameOf returns a field's name for the model: json_name if it was set explicitly, or
// else the name in the proto file. protojson accepts both names. The compiler always
// sets json_name, by default to the camel case of the name.
func nameOf(f protoreflect.FieldDescriptor) string {
	if f.JSONName() != camelCase(string(f.Name())) {
		return f.JSONName()
	}
	return string(f.Name())
}

// camelCase returns the default JSON name of a field.
func camelCase(name string) string {
	var b strings.Builder
	up := false
	for _, r := range name {
		switch {
		case r == '_':
			up = true
		case up:
			b.WriteString(strings.ToUpper(string(r)))
			up = false
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func fieldSchema(f protoreflect.FieldDescriptor, depth int) (*schema, error) {
	if f.IsMap() {
		return nil, fmt.Errorf("%s: maps are not supported in the schema of a tool", f.FullName())
	}
	one, err := kindSchema(f, depth)
	if err != nil || !f.IsList() {
		return one, err
	}
	return &schema{Type: "array", Items: one}, nil
}

func kindSchema(f protoreflect.FieldDescriptor, depth int) (*schema, error) {
	switch f.Kind() {
	case protoreflect.StringKind:
		return &schema{Type: "string"}, nil
	case protoreflect.BoolKind:
		return &schema{Type: "boolean"}, nil
	case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Sint32Kind:
		return &schema{Type: "integer"}, nil
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return &schema{Type: "number"}, nil
	case protoreflect.EnumKind:
		s := &schema{Type: "string"}
		for i := range f.Enum().Values().Len() {
			if name := string(f.Enum().Values().Get(i).Name()); !strings.HasSuffix(name, "_UNSPECIFIED") {
				s.Enum = append(s.Enum, name)
			}
		}
		return s, nil
	case protoreflect.MessageKind:
		if f.Message().FullName() == "google.protobuf.Struct" {
			return &schema{Type: "object"}, nil
		}
		return schemaOf(f.Message(), depth+1)
	}
	return nil, fmt.Errorf("%s: fields of kind %s are not supported in the schema of a tool", f.FullName(), f.Kind())
}

// lintLine matches a linter directive, which models must not see.
var lintLine = regexp.MustCompile(`(?m)^\s*buf:lint:ignore.*$`)

// commentOf returns the comment of a message or field, with one line per
// paragraph.
func commentOf(d protoreflect.Descriptor) string {
	text := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	var paragraphs []string
	text = lintLine.ReplaceAllString(text, "")
	for p := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if words := strings.Join(strings.Fields(p), " "); words != "" {
			paragraphs = append(paragraphs, words)
		}
	}
	return strings.Join(paragraphs, "\n")
}
