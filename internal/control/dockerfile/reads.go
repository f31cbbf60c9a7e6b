package dockerfile

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

var syntaxDirective = regexp.MustCompile(`(?im)\A(?:\s*#[^\n]*\n)*?\s*#\s*syntax\s*=\s*(\S+)`)

// Reads returns what a Dockerfile takes of its context, as paths from there;
// all is set where that cannot be told from its text, and may be anything.
func Reads(text string) (paths []string, all bool) {
	if ownSyntax(text) {
		return nil, true
	}
	for _, in := range instructions(text) {
		word, rest, _ := strings.Cut(squeeze(in.text), " ")
		flags, rest := cutFlags(rest)
		switch strings.ToUpper(word) {
		case "COPY", "ADD":
			if slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--from=") }) {
				continue
			}
			sources, ok := sources(rest)
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

// ownSyntax reports whether a Dockerfile brings a program that reads it, and so
// may mean anything.
func ownSyntax(text string) bool {
	m := syntaxDirective.FindStringSubmatch(text)
	return m != nil && !strings.HasPrefix(strings.TrimPrefix(m[1], "docker.io/"), "docker/dockerfile:")
}

// cutFlags parts the flags of an instruction from the rest of it.
func cutFlags(s string) (flags []string, rest string) {
	for strings.HasPrefix(s, "--") {
		var flag string
		flag, s, _ = strings.Cut(s, " ")
		flags = append(flags, flag)
	}
	return flags, s
}

// sources are those of a COPY or ADD; ok is false where they are more than
// plain paths.
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
		return nil, false // a mistake, for the engine to find
	}
	for _, w := range words[:len(words)-1] {
		switch {
		case strings.HasPrefix(w, "<<"), strings.HasPrefix(w, "http://"), strings.HasPrefix(w, "https://"):
			continue // not of the context
		case strings.ContainsAny(w, "*?[]$\\\"'<>:"):
			return nil, false
		}
		paths = append(paths, strings.TrimPrefix(path.Clean("/"+w), "/"))
	}
	return paths, !slices.Contains(paths, "")
}

// FromNetwork reports whether a Dockerfile may have the engine itself fetch
// something: what an ADD names, or whatever a syntax of its own asks for.
func FromNetwork(text string) bool {
	return ownSyntax(text) || slices.ContainsFunc(instructions(text), func(in instruction) bool {
		word, rest, _ := strings.Cut(squeeze(in.text), " ")
		word = strings.ToUpper(word)
		return (word == "ADD" || word == "ONBUILD") && strings.ContainsAny(rest, ":$")
	})
}
