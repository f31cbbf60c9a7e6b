package notebook

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// span is a range of bytes of a text.
type span struct{ from, to int }

func (s span) slice(text []byte) []byte { return text[s.from:s.to] }

// member is a member of an object.
type member struct {
	name  string
	key   int // offset of its name
	value span
	tree  hujson.Value // the value
}

// parse parses a text. Unlike hujson, it accepts no comments and no trailing commas.
func parse(text []byte) (hujson.Value, error) {
	if !json.Valid(text) {
		var v any
		return hujson.Value{}, json.Unmarshal(text, &v)
	}
	return hujson.Parse(text)
}

func spanOf(v hujson.Value) span { return span{v.StartOffset, v.EndOffset} }

// membersOf returns the members of v, or nil if it is not an object.
func membersOf(v hujson.Value) []member {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	all := make([]member, len(object.Members))
	for i, m := range object.Members {
		name, _ := m.Name.Value.(hujson.Literal) // the name of a member is always a string
		all[i] = member{name.String(), m.Name.StartOffset, spanOf(m.Value), m.Value}
	}
	return all
}

// elementsOf returns the elements of v, or nil if it is not a list.
func elementsOf(v hujson.Value) []hujson.Value {
	list, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil
	}
	return list.Elements
}

// find returns the member with a name; if there are several, the last, as other
// parsers do.
func find(all []member, name string) (member, bool) {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].name == name {
			return all[i], true
		}
	}
	return member{}, false
}

func stringOf(text []byte, all []member, name string) string {
	m, ok := find(all, name)
	if !ok {
		return ""
	}
	var s string
	_ = json.Unmarshal(m.value.slice(text), &s) // empty if it is not a string
	return s
}

func number(text []byte, all []member, name string) int {
	m, ok := find(all, name)
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(string(m.value.slice(text))) // 0 if it is not a number
	return n
}

// decodeImage decodes an image of an output.
func decodeImage(raw json.RawMessage) []byte {
	text := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == ' ' {
			return -1
		}
		return r
	}, joined(raw))
	if text == "" {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return data
}

var colours = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// plain removes terminal color codes from a text.
func plain(text string) string { return colours.ReplaceAllString(text, "") }
