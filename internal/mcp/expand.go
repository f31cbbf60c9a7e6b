package mcp

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Variables are the values for ${…} in a configuration.
type Variables struct {
	Env           func(name string) (value string, ok bool) // for ${env:NAME}
	UserHome      string                                    // for ${userHome}
	Workspace     string                                    // for ${workspaceFolder}
	PathSeparator string                                    // for ${pathSeparator} and ${/}; "/" by default
}

var placeholder = regexp.MustCompile(`\$\{([^{}]*)\}`)

// bare matches an environment variable in the syntax of other clients: ${NAME},
// or ${NAME:-default}.
var bare = regexp.MustCompile(`^([A-Z_][A-Z0-9_]*)(?::-(.*))?$`)

// expand replaces each ${…} in s, without expanding the result again. Unknown
// expressions stay unchanged.
func (v Variables) expand(s string) (string, error) {
	var missing error
	size := 0
	out := placeholder.ReplaceAllStringFunc(s, func(m string) string {
		to, err := v.one(m[2:len(m)-1], m)
		if err != nil && missing == nil {
			missing = err
		}
		if size += len(to); size > maxValue { // limit the size, so that repeating a long variable cannot use up memory
			return ""
		}
		return to
	})
	if size > maxValue {
		return "", fmt.Errorf("after expanding variables it has more than %d bytes", maxValue)
	}
	return out, missing
}

func (v Variables) one(name, whole string) (string, error) {
	switch name {
	case "userHome":
		return v.UserHome, nil
	case "workspaceFolder":
		return v.Workspace, nil
	case "workspaceFolderBasename":
		return path.Base(v.Workspace), nil
	case "pathSeparator", "/":
		if v.PathSeparator == "" {
			return "/", nil
		}
		return v.PathSeparator, nil
	}
	variable, fallback, hasFallback := "", "", false
	if env, ok := strings.CutPrefix(name, "env:"); ok {
		variable, fallback, hasFallback = strings.Cut(env, ":-")
	} else if m := bare.FindStringSubmatch(name); m != nil {
		variable, fallback, hasFallback = m[1], m[2], strings.Contains(name, ":-")
	} else {
		return whole, nil
	}
	if v.Env != nil {
		if value, ok := v.Env(variable); ok {
			return value, nil
		}
	}
	if hasFallback {
		return fallback, nil
	}
	return "", fmt.Errorf("the variable %s is not set", clean(variable, 80))
}

// isKnown reports whether every ${…} in s is a known variable; otherwise it returns the
// first unknown one.
func isKnown(s string) (string, bool) {
	for _, m := range placeholder.FindAllString(s, -1) {
		if to, err := (Variables{Workspace: "/w"}).one(m[2:len(m)-1], m); err == nil && to == m {
			return m, false
		}
	}
	return "", true
}

// Expand returns the server with its variables expanded, and checks it again.
// The error names the key and the variable, never a value.
func (s Server) Expand(v Variables) (Server, error) {
	var failed error
	text := func(key, value string) string {
		out, err := v.expand(value)
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s: %s: %w", s.Name, key, err)
		}
		return out
	}
	all := func(key string, m map[string]string) map[string]string {
		out := maps.Clone(m)
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out[k] = text(key+"."+clean(k, 80), m[k])
		}
		return out
	}
	s.Command, s.EnvFile, s.URL = text("command", s.Command), text("envFile", s.EnvFile), text("url", s.URL)
	s.Args = slices.Clone(s.Args)
	for i, a := range s.Args {
		s.Args[i] = text(fmt.Sprintf("args[%d]", i), a)
	}
	s.Env, s.Headers = all("env", s.Env), all("headers", s.Headers)
	if s.Auth != nil {
		a := *s.Auth
		a.ClientID, a.ClientSecret = text("auth.CLIENT_ID", a.ClientID), text("auth.CLIENT_SECRET", a.ClientSecret)
		a.Scopes = slices.Clone(a.Scopes)
		for i, scope := range a.Scopes {
			a.Scopes[i] = text(fmt.Sprintf("auth.scopes[%d]", i), scope)
		}
		s.Auth = &a
	}
	if failed != nil {
		return Server{}, failed
	}
	if strings.Contains(s.URL, "${") {
		return Server{}, fmt.Errorf("%s: url: it contains an unknown variable", s.Name)
	}
	if problems := s.Check(); len(problems) > 0 {
		p := problems[0]
		return Server{}, fmt.Errorf("%s: %s: %s, after expanding its variables", s.Name, p.Key, p.Message)
	}
	return s, nil
}
