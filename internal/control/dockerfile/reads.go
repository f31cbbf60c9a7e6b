package dockerfile

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// Reads returns the paths in the context that a Dockerfile copies. all is true
// if that cannot be determined, because the Dockerfile may then copy any file.
func Reads(text string) (paths []string, all bool) {
	steps, err := instructions(text)
	if err != nil {
		return nil, true // the build will report the error
	}
	for _, in := range steps {
		flags, rest, err := cutFlags(in.arguments())
		if err != nil {
			return nil, true
		}
		switch in.name() {
		case "COPY", "ADD":
			if slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--from=") }) {
				continue
			}
			sources, ok := sources(squeeze(rest))
			if !ok {
				return nil, true
			}
			paths = append(paths, sources...)
		case "RUN":
			for _, f := range flags {
				mount, is := strings.CutPrefix(f, "--mount=")
				if is && !strings.Contains(mount, "from=") && (!strings.Contains(mount, "type=") || strings.Contains(mount, "type=bind") || strings.Contains(mount, "$")) {
					return nil, true
				}
			}
		case "ONBUILD":
			return nil, true
		}
	}
	return paths, false
}

// sources returns the source paths of a COPY or ADD. ok is false if the
// instruction is not that simple.
func sources(s string) (paths []string, ok bool) {
	var words []string
	if strings.HasPrefix(s, "[") {
		if json.Unmarshal([]byte(s), &words) != nil {
			return nil, false
		}
	} else {
		words = strings.Fields(s)
	}
	if len(words) < 2 {
		return nil, false // an error, which the engine will report
	}
	for _, w := range words[:len(words)-1] {
		switch {
		case strings.HasPrefix(w, "<<"), strings.HasPrefix(w, "http://"), strings.HasPrefix(w, "https://"):
			continue // not in the context
		case strings.ContainsAny(w, "*?[]$\\\"'<>:"):
			return nil, false
		}
		paths = append(paths, strings.TrimPrefix(path.Clean("/"+w), "/"))
	}
	return paths, !slices.Contains(paths, "")
}

// FromNetwork reports whether a Dockerfile may make the engine itself download
// a file, by ADD of a URL.
func FromNetwork(text string) bool {
	steps, err := instructions(text)
	return err != nil || slices.ContainsFunc(steps, func(in instruction) bool {
		return (in.name() == "ADD" || in.name() == "ONBUILD") && strings.ContainsAny(in.arguments(), ":$")
	})
}
