package environment

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// shape is the type of a key's value. read returns the value in the file's canonical
// form, or false if there is none. It reports all parts that it drops.
type shape interface {
	describe() string
	schema() map[string]any
	read(d *decoder, key string, n node) (any, bool)
}

// complaint is a problem with a value, and a suggestion.
type complaint struct{ message, instead string }

// text is a string. If check returns a complaint, that is an error.
type text struct {
	what  string // the name of the value with an article; defaults to "text"
	max   int    // bytes
	empty bool   // the text may be empty, which counts as missing
	check func(s string) *complaint
}

func (t text) describe() string {
	return strings.TrimPrefix(strings.TrimPrefix(orText(t.what), "a "), "an ")
}

func (t text) schema() map[string]any { return map[string]any{"type": "string"} }

func (t text) read(d *decoder, key string, n node) (any, bool) {
	s, ok := n.value.(string)
	switch {
	case !ok:
		d.wrong(n.offset, key, "write "+orText(t.what)+" in double quotes", "this is %s", kind(n))
		return nil, false
	case strings.ContainsRune(s, 0):
		d.wrong(n.offset, key, "remove it", `a \u0000 in text`)
		return nil, false
	case len(s) > t.max:
		d.wrong(n.offset, key, fmt.Sprintf("write at most %d", t.max), "this has %d bytes", len(s))
		return nil, false
	case strings.TrimSpace(s) == "":
		if !t.empty {
			d.warn(n.offset, key, "write "+orText(t.what)+", or remove the key", "this is empty")
		}
		return nil, false
	}
	if t.check != nil {
		if c := t.check(s); c != nil {
			d.wrong(n.offset, key, c.instead, "%s", c.message)
			return nil, false
		}
	}
	return s, true
}

func orText(what string) string {
	if what == "" {
		return "text"
	}
	return what
}

// choice is a list of words, one of which must be the value.
type choice []string

func (c choice) describe() string       { return "`" + strings.Join(c, "`, `") + "`" }
func (c choice) schema() map[string]any { return map[string]any{"type": "string", "enum": []string(c)} }

func (c choice) read(d *decoder, key string, n node) (any, bool) {
	if s, ok := n.value.(string); ok && slices.Contains(c, s) {
		return s, true
	}
	d.wrong(n.offset, key, "write one of "+strings.Join(c, ", "), "this is %s", kind(n))
	return nil, false
}

// boolean is true or false, optionally in quotes.
type boolean struct{ quoted bool } // quoted: the format itself allows quotes

func (b boolean) describe() string { return "true or false" }

func (b boolean) schema() map[string]any {
	if b.quoted {
		return map[string]any{"enum": []any{true, false, "true", "false"}}
	}
	return map[string]any{"type": "boolean"}
}

func (b boolean) read(d *decoder, key string, n node) (any, bool) {
	switch v := n.value.(type) {
	case bool:
		return v, true
	case string:
		if v == "true" || v == "false" {
			if !b.quoted {
				d.warn(n.offset, key, "write "+v+" without quotes", "%q is text", v)
			}
			return v == "true", true
		}
	}
	d.wrong(n.offset, key, "write true or false", "this is %s", kind(n))
	return nil, false
}

// list has items of one shape. Invalid items are left out.
type list struct {
	of      shape
	max     int
	flatten bool // nested lists are replaced by their items
}

func (l list) describe() string { return "list of " + l.of.describe() }

func (l list) schema() map[string]any {
	items := l.of.schema()
	if l.flatten {
		items = map[string]any{"anyOf": []any{items, map[string]any{"type": "array", "items": l.of.schema()}}}
	}
	return map[string]any{"type": "array", "items": items}
}

func (l list) read(d *decoder, key string, n node) (any, bool) {
	nodes, ok := n.value.([]node)
	if !ok {
		d.wrong(n.offset, key, "enclose it in [ and ]", "expected a list, not %s", kind(n))
		return nil, false
	}
	items := []any{}
	full := false
	var add func(nodes []node, key string)
	add = func(nodes []node, key string) {
		for i, item := range nodes {
			at := key + "[" + strconv.Itoa(i) + "]"
			if inner, ok := item.value.([]node); ok && l.flatten {
				add(inner, at)
				continue
			}
			if item.value == nil || full {
				continue
			}
			if len(items) == l.max {
				full = true
				d.wrong(item.offset, at, fmt.Sprintf("leave at most %d", l.max), "this and the following entries exceed the limit")
				continue
			}
			if v, ok := l.of.read(d, at, item); ok {
				d.recordPosition(at, len(items), key, item.offset)
				items = append(items, v)
			}
		}
	}
	add(nodes, key)
	return items, true
}

// either is an object, or a short form that contains only the value of one of the
// object's keys.
type either struct {
	short shape
	key   string
	odd   bool // the short form is a guess and causes a warning
	object
}

func (e either) describe() string { return e.object.describe() }

func (e either) schema() map[string]any {
	if e.odd {
		return e.object.schema()
	}
	return map[string]any{"anyOf": []any{e.object.schema(), e.short.schema()}}
}

func (e either) read(d *decoder, key string, n node) (any, bool) {
	if _, ok := n.value.([]member); ok {
		return e.object.read(d, key, n)
	}
	v, ok := e.short.read(d, key, n)
	if !ok {
		return nil, false
	}
	if e.odd {
		d.warn(n.offset, key, fmt.Sprintf("write {%q: …}", e.key), "this is %s alone", kind(n))
	}
	return map[string]any{e.key: v}, true
}

// number is a whole number, optionally in quotes.
type number struct{ min, max int }

func (r number) describe() string { return fmt.Sprintf("number from %d to %d", r.min, r.max) }

func (r number) schema() map[string]any {
	return map[string]any{"type": "integer", "minimum": r.min, "maximum": r.max}
}

func (r number) read(d *decoder, key string, n node) (any, bool) {
	word := ""
	switch v := n.value.(type) {
	case json.Number:
		word = v.String()
	case string:
		word = v
	}
	i, err := strconv.Atoi(word)
	if err != nil || i < r.min || i > r.max {
		d.wrong(n.offset, key, "write a whole "+r.describe(), "this is %s", kind(n))
		return nil, false
	}
	if _, ok := n.value.(string); ok {
		d.warn(n.offset, key, fmt.Sprintf("write %d without quotes", i), "%q is text", word)
	}
	return i, true
}

// mapping is an object with arbitrary names as keys.
type mapping struct {
	name func(string) *complaint
	max  int // bytes of a value
}

func (m mapping) describe() string { return "object of names and text" }

func (m mapping) schema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []string{"string", "number", "boolean"}}}
}

func (m mapping) read(d *decoder, key string, n node) (any, bool) {
	members, ok := n.value.([]member)
	if !ok {
		d.wrong(n.offset, key, `write {"NAME": "value"}`, "this is %s", kind(n))
		return nil, false
	}
	values := map[string]any{}
	for _, mem := range members {
		at := key + "." + displayKey(mem.key)
		if c := m.name(mem.key); c != nil {
			d.wrong(mem.offset, at, c.instead, "%s", c.message)
			continue
		}
		value := ""
		switch v := mem.value.value.(type) {
		case string:
			value = v
		case json.Number:
			value = v.String()
		case bool:
			value = strconv.FormatBool(v)
		case nil:
			continue
		default:
			d.wrong(mem.value.offset, at, "write text in double quotes", "this is %s", kind(mem.value))
			continue
		}
		if len(value) > m.max || strings.ContainsRune(value, 0) {
			d.wrong(mem.value.offset, at, fmt.Sprintf("write at most %d bytes, none of them 0", m.max), "the value has %d bytes or a \\u0000", len(value))
			continue
		}
		if _, ok := values[mem.key]; ok {
			d.warn(mem.offset, at, "keep one", "duplicate key; the last one counts")
		}
		values[mem.key] = value
	}
	return values, true
}

// displayKey formats a key from a file as part of a finding's location.
func displayKey(key string) string {
	key = clean(key, 60)
	if key == "" || strings.ContainsAny(key, " .[]") {
		return strconv.Quote(key)
	}
	return key
}

// kind describes the type of a value for people.
func kind(n node) string {
	switch v := n.value.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return "the number " + clean(v.String(), 30)
	case string:
		if v == "" || utf8.RuneCountInString(v) > 60 {
			return "text"
		}
		return "the text " + strconv.Quote(v)
	case []node:
		return "a list"
	}
	return "an object"
}
