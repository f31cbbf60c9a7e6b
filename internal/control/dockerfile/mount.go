package dockerfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// mountOptions lists the allowed options by type of mount.
var mountOptions = map[string][]string{
	"bind":   {"type", "target", "source", "from", "rw", "readwrite", "ro", "readonly"},
	"cache":  {"type", "target", "source", "from", "id", "sharing", "mode", "uid", "gid", "ro", "readonly", "rw", "readwrite"},
	"tmpfs":  {"type", "target", "size"},
	"secret": {"type", "target", "id", "required", "mode", "uid", "gid", "env"},
}

// mount rewrites the value of a --mount flag of RUN for the engine. It replaces
// a cache's id by an id that no other repository's build can name. If a bind
// mount's source is in the context, it resolves the source's symbolic links.
func (g gate) mount(value string, seen *stages, out *passed) (string, error) {
	type option struct{ key, value string }
	var all []option
	get := func(key string) string {
		for _, o := range all {
			if o.key == key {
				return o.value
			}
		}
		return ""
	}
	for part := range strings.SplitSeq(value, ",") {
		key, value, given := strings.Cut(part, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		switch key {
		case "src":
			key = "source"
		case "dst", "destination":
			key = "target"
		}
		if slices.ContainsFunc(all, func(o option) bool { return o.key == key }) {
			return "", fmt.Errorf("--mount: duplicate option %s", key)
		}
		if !given {
			value = "true"
		}
		if strings.Contains(value, "$") && key != "target" && key != "id" {
			return "", fmt.Errorf("--mount: %s cannot be resolved before the build", value)
		}
		all = append(all, option{key, value})
	}
	kind := get("type")
	if kind == "" {
		kind = "bind"
	}
	allowed, ok := mountOptions[kind]
	if kind == "ssh" {
		return "", errors.New("--mount=type=ssh: builds have no SSH agent; mount a secret with type=secret")
	}
	if !ok {
		return "", fmt.Errorf("--mount=type=%s is not allowed", kind)
	}
	id := get("id")
	words := []string{"type=" + kind}
	for _, o := range all {
		if !slices.Contains(allowed, o.key) {
			return "", fmt.Errorf("--mount=type=%s does not support the option %q", kind, o.key)
		}
		if strings.ContainsAny(o.value, " \t\"'`{}") && o.key != "target" {
			return "", fmt.Errorf("--mount: %q contains spaces, quotes or braces", o.value)
		}
		var err error
		switch o.key {
		case "type":
			continue
		case "from":
			o.value, err = g.image(o.value, seen, out)
		case "source":
			o.value, err = g.mountSource(o.value, kind == "bind" && get("from") == "")
		case "id":
			if kind == "cache" {
				continue
			}
			if !simple(o.value) {
				err = fmt.Errorf("--mount: invalid id %q: use letters, digits and . _ -", o.value)
			}
		}
		if err != nil {
			return "", err
		}
		words = append(words, o.key+"="+o.value)
	}
	if kind == "cache" {
		if get("target") == "" {
			return "", errors.New("--mount=type=cache has no target")
		}
		if id == "" {
			id = get("target")
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", g.repository, id))
		words = append(words, "id="+hex.EncodeToString(sum[:16]))
	}
	return strings.Join(words, ","), nil
}

// mountSource is a mount's source path, in the context or elsewhere.
func (g gate) mountSource(path string, ofContext bool) (string, error) {
	if slices.Contains(strings.Split(path, "/"), "..") {
		return "", fmt.Errorf(`--mount: the source %q has ".." in it`, path)
	}
	if !ofContext {
		return path, nil
	}
	real, err := g.source(path)
	if err != nil {
		return "", fmt.Errorf("--mount: the source %q: %w", path, err)
	}
	if strings.ContainsAny(real, ", \t\"'\\$`") {
		return "", fmt.Errorf("--mount: the source %q has characters that engines interpret differently", real)
	}
	return real, nil
}
