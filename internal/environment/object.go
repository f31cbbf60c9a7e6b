package environment

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Key is one key of the format.
type Key struct {
	Name    string
	Meaning string // description in Markdown
	Example string // an example value in JSON
	Keys    []Key  // keys of the object, if the value or its items are objects
	shape   shape
	// closed replaces an invalid value; if it is nil, an invalid key is ignored. Keys that
	// restrict something have a closed value, so that a mistake does not lift the
	// restriction.
	closed *closed
}

// closed is the most restrictive value of a key.
type closed struct {
	value any
	means string // follows "so" in the finding's message
}

// Type describes the type of the value for people.
func (k Key) Type() string { return k.shape.describe() }

// object is an object with known keys. Unknown keys cause a warning.
type object struct {
	what   string
	keys   []Key
	either []string // exactly one of these keys is required
}

func (o object) describe() string { return o.what }

func (o object) schema() map[string]any {
	properties := map[string]any{}
	for _, k := range o.keys {
		s := k.shape.schema()
		s["description"] = strings.ReplaceAll(k.Meaning, "`", "")
		s["examples"] = []json.RawMessage{json.RawMessage(k.Example)}
		properties[k.Name] = s
	}
	s := map[string]any{"type": "object", "properties": properties}
	if len(o.either) == 1 {
		s["required"] = o.either
	} else if len(o.either) > 1 {
		var one []any
		for _, k := range o.either {
			one = append(one, map[string]any{"required": []string{k}})
		}
		s["oneOf"] = one
	}
	return s
}

func (o object) read(d *decoder, key string, n node) (any, bool) {
	members, ok := n.value.([]member)
	if !ok {
		instead := "enclose it in { and }"
		if len(o.either) > 0 {
			instead = fmt.Sprintf("write an object with %s, as in {%q: …}", strings.Join(o.either, " or "), o.either[0])
		}
		d.wrong(n.offset, key, instead, "expected an object, not %s", kind(n))
		return nil, false
	}
	values := map[string]any{}
	seen := map[string]bool{}
	for _, m := range members {
		at := displayKey(m.key)
		if key != "" {
			at = key + "." + at
		}
		i := slices.IndexFunc(o.keys, func(k Key) bool { return k.Name == m.key })
		if i < 0 {
			d.warn(m.offset, at, o.suggest(m.key), "unknown key; it has no effect")
			continue
		}
		if seen[m.key] {
			d.warn(m.offset, at, "keep one", "duplicate key; the last one counts")
			delete(values, m.key)
		}
		seen[m.key] = true
		if m.value.value == nil {
			continue // treated as absent
		}
		v, ok := o.keys[i].shape.read(d, at, m.value)
		if c := o.keys[i].closed; !ok && c != nil {
			d.warn(m.value.offset, at, "fix it", "this restriction is invalid, so %s", c.means)
			v, ok = c.value, true
		}
		if ok {
			values[m.key] = v
			if key == "" {
				d.positions[m.key] = position{at, m.offset}
			}
		}
	}
	return values, o.complete(d, key, n.offset, seen, values)
}

// complete reports whether exactly one of the mutually exclusive keys is present.
func (o object) complete(d *decoder, key string, at int, seen map[string]bool, values map[string]any) bool {
	if len(o.either) == 0 {
		return true
	}
	var have, tried []string
	for _, k := range o.either {
		if values[k] != nil {
			have = append(have, k)
		}
		if seen[k] {
			tried = append(tried, k)
		}
	}
	switch {
	case len(have) == 1:
		return true
	case len(have) > 1:
		d.wrong(at, key, "keep one of them", "%s are both set", strings.Join(have, " and "))
	case len(tried) == 0:
		d.wrong(at, key, fmt.Sprintf("write \"%s\": …", o.either[0]), "%s is missing", strings.Join(o.either, " or "))
	default:
		d.wrong(at, key, "fix "+tried[0], "it is ignored because it has no %s", strings.Join(o.either, " or "))
	}
	return false
}

// others maps keys of similar formats to this format's keys.
var others = map[string]string{
	"dockerfile": `"build": {"dockerfile": …}`, "dockerfilecontents": `"build": {"dockerfileContents": …}`,
	"context": `"build": {"context": …}`, "environment": `"env"`, "environmentvariables": `"env"`, "variables": `"env"`, "containerenv": `"env"`,
	"setup": `"install"`, "update": `"install"`, "postcreatecommand": `"install"`, "poststartcommand": `"start"`,
	"forwardports": `"ports"`, "remoteuser": `"user"`, "containeruser": `"user"`, "commands": `"terminals"`, "cmd": `"command"`, "script": `"command"`,
}

// suggest returns the known key that was probably meant by an unknown one.
func (o object) suggest(key string) string {
	lower := strings.ToLower(key)
	for _, k := range o.keys {
		if known := strings.ToLower(k.Name); known == lower || isSimilar(known, lower) {
			return fmt.Sprintf("write %q", k.Name)
		}
	}
	if other, ok := others[lower]; ok {
		return "write " + other
	}
	return "remove it"
}

// isSimilar reports whether a and b differ by one typing error: a letter added, removed
// or replaced, or two letters swapped. Short words are never similar.
func isSimilar(a, b string) bool {
	if len(a) < 4 || len(b) > 64 || max(len(a), len(b))-min(len(a), len(b)) > 1 {
		return false
	}
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:]
	switch {
	case len(a) > len(b):
		return a[1:] == b
	case len(a) < len(b):
		return a == b[1:]
	}
	return a == b || a[1:] == b[1:] || len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
}
