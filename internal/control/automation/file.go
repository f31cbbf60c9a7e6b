package automation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// maxLines limits the lines of a file, because the time that the YAML parser needs
// for a block of empty lines grows with the square of their number.
const maxLines = 2000

// ParseFile parses a spec in YAML or JSON, with the fields of the API, and
// checks it. repository is the URL of the file's repository; a file cannot name
// another repository. The error is a fault for the author of the file.
func ParseFile(data []byte, repository string) (s Spec, err error) {
	if len(data) > MaxSpec {
		return s, fault.Invalid("the file has %d bytes; the limit is %d", len(data), MaxSpec)
	}
	if n := bytes.Count(data, []byte("\n")); n > maxLines {
		return s, fault.Invalid("the file has %d lines; the limit is %d", n, maxLines)
	}
	text, err := toJSON(data)
	if err != nil {
		return s, fault.Invalid("the file is not valid YAML: %s", err)
	}
	if s, err = ParseJSON(text); err != nil {
		return s, err
	}
	if s.Repository != "" && s.Repository != repository {
		return s, fault.Invalid("must be absent: the automation works on the repository of the file").At("repository")
	}
	s.Repository = repository
	return s, s.Check()
}

// ParseJSON parses a spec and refuses unknown fields. It does not check the
// values.
func ParseJSON(data []byte) (s Spec, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return s, fault.Invalid("must be a %s", typeName(wrong.Type.Kind().String())).At(wrong.Field)
		}
		return s, fault.Invalid("the definition cannot be read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return s, nil
}

func typeName(kind string) string {
	switch kind {
	case "slice":
		return "list"
	case "struct", "map", "ptr":
		return "mapping"
	case "int", "int64", "float64":
		return "number"
	case "bool":
		return "boolean"
	}
	return kind
}

// toJSON converts YAML to JSON. It refuses anchors and aliases, with which a
// small file can become a huge value.
func toJSON(data []byte) (out []byte, err error) {
	defer func() { // the parser is another project's code
		if p := recover(); p != nil {
			err = errors.New("it cannot be parsed")
		}
	}()
	depth := 0
	for _, t := range lexer.Tokenize(string(data)) {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return nil, fmt.Errorf("line %d: anchors and aliases are not supported", t.Position.Line)
		case token.MappingStartType, token.SequenceStartType:
			if depth++; depth > maxDepth {
				return nil, fmt.Errorf("line %d: it is nested too deeply", t.Position.Line)
			}
		case token.MappingEndType, token.SequenceEndType:
			depth--
		}
		if t.Position != nil && t.Position.IndentNum > 10*maxDepth {
			return nil, fmt.Errorf("line %d: it is nested too deeply", t.Position.Line)
		}
	}
	var v map[string]any
	if err := yaml.Unmarshal(data, &v); err != nil {
		return nil, errors.New(forge.Line(yaml.FormatError(err, false, false), 300))
	}
	return json.Marshal(v)
}
