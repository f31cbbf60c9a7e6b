package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"aloft/internal/tool"
	"aloft/internal/wire/agentv1"
)

// reference returns docs/reference/tools.md: the registry is made from the messages, and
// the list of tools from the catalogue.
func reference(specs []tool.Spec) (string, error) {
	var b strings.Builder
	b.WriteString("# Tools\n\nThis page is made from the messages in `proto/agent/v1` by `make generate`.\n\n## The registry\n\n" +
		"Each tool has a number, which it keeps. A tool with a name is offered to models if the machine and the server have\n" +
		"what it needs. A call of any other tool answers `not available: needs …`.\n\n| number | message | offered as | acts | needs |\n|---|---|---|---|---|\n")
	calls := new(agentv1.ToolCall).ProtoReflect().Descriptor().Oneofs().ByName("tool").Fields()
	for i := range calls.Len() {
		field := calls.Get(i)
		names, homes := offeredAs(field.Message(), specs)
		needs, _ := proto.GetExtension(field.Message().Options(), agentv1.E_Needs).(string)
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s | %s |\n", field.Number(), field.Name(), strings.Join(names, ", "), strings.Join(homes, ", "), needs)
	}
	for _, s := range specs {
		section, err := toolSection(s)
		if err != nil {
			return "", err
		}
		b.WriteString(section)
	}
	return b.String(), nil
}

// offeredAs returns the names of the tools whose arguments the message can hold, and
// where these tools run.
func offeredAs(m protoreflect.MessageDescriptor, specs []tool.Spec) (names, homes []string) {
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		if field.Kind() != protoreflect.MessageKind {
			continue
		}
		options, _ := proto.GetExtension(field.Message().Options(), agentv1.E_Tool).(*agentv1.ToolOptions)
		at := slices.IndexFunc(specs, func(s tool.Spec) bool { return s.Name == options.GetName() })
		if at < 0 {
			continue
		}
		names = append(names, "["+specs[at].Name+"](#"+strings.ToLower(specs[at].Name)+")")
		if home := homeWords[specs[at].Home]; !slices.Contains(homes, home) {
			homes = append(homes, home)
		}
	}
	return names, homes
}

var homeWords = map[tool.Home]string{tool.Guest: "in the machine", tool.Control: "on the server"}

// toolSection returns the section about one tool.
func toolSection(s tool.Spec) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.Name, strings.ReplaceAll(s.Description, "\n", "\n\n"))
	side := "Calls of it run one after the other."
	if s.ReadOnly {
		side = "It changes nothing, so calls of it may run side by side."
	}
	fmt.Fprintf(&b, "\nIn the public stream it is `%s`. %s\n", s.PublicName, side)
	parameters, err := parametersOf(s.Schema)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, err)
	}
	if len(parameters) > 0 {
		b.WriteString("\n| parameter | type | required | meaning |\n|---|---|---|---|\n" + strings.Join(parameters, ""))
	}
	return b.String(), nil
}

// parametersOf returns a table row for each property of a schema, in the
// schema's order.
func parametersOf(schema json.RawMessage) ([]string, error) {
	var object struct {
		Properties map[string]struct {
			Type        string
			Description string
			Enum        []string
			Items       struct {
				Type       string
				Properties map[string]json.RawMessage
			}
		}
		Required []string
	}
	if err := json.Unmarshal(schema, &object); err != nil {
		return nil, err
	}
	var rows []string
	for _, name := range inOrder(schema) {
		p := object.Properties[name]
		kind := p.Type
		switch {
		case len(p.Enum) > 0:
			kind = "one of " + strings.Join(p.Enum, ", ")
		case kind == "array":
			kind = "list of " + p.Items.Type + "s"
		}
		required := ""
		if slices.Contains(object.Required, name) {
			required = "yes"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, kind, required, strings.ReplaceAll(p.Description, "|", "\\|")))
	}
	return rows, nil
}

// inOrder returns the names of a schema's properties in their original order.
func inOrder(schema json.RawMessage) []string {
	var top struct{ Properties json.RawMessage }
	if json.Unmarshal(schema, &top) != nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(top.Properties))
	var names []string
	if _, err := d.Token(); err != nil {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		var skip json.RawMessage
		if err != nil || d.Decode(&skip) != nil {
			return names
		}
		if s, ok := name.(string); ok {
			names = append(names, s)
		}
	}
	return names
}
