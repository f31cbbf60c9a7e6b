package mcp

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Problem is a mistake in a server's configuration. Key is its location, such as
// args[1]; "" is the whole server. Problems never contain values of variables, headers
// or secrets.
type Problem struct {
	Key     string
	Message string
	Instead string // what to write instead
}

var (
	serverName   = regexp.MustCompile(`^[A-Za-z0-9@][A-Za-z0-9 @/._-]*$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// reserved are headers that the transport sets itself, or that would change the
// recipient of a request.
var reserved = []string{
	"host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade", "accept",
	"mcp-session-id", "mcp-protocol-version", "last-event-id", "te", "trailer", "proxy-authorization",
}

// Check sets Type if it is missing, and returns all mistakes in the server's
// configuration. A server with a problem must not be used.
func (s *Server) Check() []Problem {
	var out []Problem
	wrong := func(key, instead, format string, args ...any) {
		out = append(out, Problem{key, fmt.Sprintf(format, args...), instead})
	}
	if p := CheckName(s.Name); p != nil {
		out = append(out, *p)
	}
	switch {
	case s.Command != "" && s.URL != "":
		wrong("", "keep one of them", "command and url are both set")
		return out
	case s.Command == "" && s.URL == "":
		wrong("", `write "command": … for a program in the machine, or "url": … for a remote server`, "command or url is missing")
		return out
	}
	if s.Type == "" {
		s.Type = HTTP
		if s.Command != "" {
			s.Type = Stdio
		}
	}
	switch {
	case s.Type != Stdio && s.Type != HTTP && s.Type != SSE:
		wrong("type", "write stdio, http or sse", "%q is not a transport", clean(string(s.Type), 40))
	case (s.Type == Stdio) != (s.Command != ""):
		wrong("type", "remove it: it is derived from command or url", "%s does not fit %s", s.Type, map[bool]string{true: "command", false: "url"}[s.Command != ""])
	}
	if s.Command != "" {
		s.checkStdio(wrong)
	} else {
		s.checkRemote(wrong)
	}
	return out
}

// CheckName returns the problem with the name of a server, or nil.
func CheckName(name string) *Problem {
	const instead = "use letters, digits, spaces and @ / . _ -"
	switch {
	case name == "":
		return &Problem{"name", "it is missing", instead}
	case len(name) > MaxName:
		return &Problem{"name", fmt.Sprintf("the name has %d characters, more than %d", len(name), MaxName), "shorten it"}
	case !serverName.MatchString(name) || strings.HasSuffix(name, " "):
		return &Problem{"name", fmt.Sprintf("%q is not a valid server name", clean(name, 80)), instead}
	}
	return nil
}

type complain = func(key, instead, format string, args ...any)

func (s *Server) checkStdio(wrong complain) {
	text := func(key, value string) {
		switch {
		case strings.ContainsRune(value, 0):
			wrong(key, "remove it", "it contains a zero byte")
		case len(value) > maxValue:
			wrong(key, "shorten it", "it has %d bytes, more than %d", len(value), maxValue)
		}
	}
	text("command", s.Command)
	text("envFile", s.EnvFile)
	if len(s.Args) > maxArgs {
		wrong("args", "shorten the list", "%d arguments are more than %d", len(s.Args), maxArgs)
	}
	for i, a := range s.Args {
		text(fmt.Sprintf("args[%d]", i), a)
	}
	if len(s.Env) > maxVariables {
		wrong("env", "shorten it", "%d variables are more than %d", len(s.Env), maxVariables)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		if !variableName.MatchString(k) {
			wrong("env", "use letters, digits and _", "%q is not a valid variable name", clean(k, 80))
			continue
		}
		text("env."+k, s.Env[k])
	}
	if len(s.Headers) > 0 {
		wrong("headers", "use env", "a program has no headers")
	}
	if s.Auth != nil {
		wrong("auth", "use env", "a program has no sign-in")
	}
}

func (s *Server) checkRemote(wrong complain) {
	if len(s.Args) > 0 || len(s.Env) > 0 || s.EnvFile != "" {
		wrong("", "remove args, env and envFile", "a remote server runs no program")
	}
	if why := checkURL(s.URL); why != "" {
		wrong("url", "write one such as https://mcp.example.com/mcp", "%s", why)
	}
	if len(s.Headers) > maxVariables {
		wrong("headers", "shorten it", "%d headers are more than %d", len(s.Headers), maxVariables)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Headers)) {
		key, v := "headers."+clean(k, 80), s.Headers[k]
		switch {
		case !headerName.MatchString(k) || len(k) > 256:
			wrong("headers", "use letters, digits and -", "%q is not a valid header name", clean(k, 80))
		case slices.Contains(reserved, strings.ToLower(k)):
			wrong(key, "remove it", "Aloft sets this header itself")
		case len(v) > maxValue:
			wrong(key, "shorten it", "it has %d bytes, more than %d", len(v), maxValue)
		case strings.ContainsFunc(v, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
			wrong(key, "write it on one line", "it contains a control character")
		}
	}
	if a := s.Auth; a != nil {
		if a.ClientID == "" {
			wrong("auth.CLIENT_ID", "write the id that the server gave the client, or remove auth", "it is missing")
		}
		if len(a.ClientID) > maxValue || len(a.ClientSecret) > maxValue {
			wrong("auth", "shorten it", "it is longer than %d bytes", maxValue)
		}
		for i, scope := range a.Scopes {
			if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
				wrong(fmt.Sprintf("auth.scopes[%d]", i), "write it as in the server's documentation", "%q is not a valid scope", clean(scope, 80))
			}
		}
	}
}

// checkURL returns why a server cannot have this URL, or "". A URL with a variable is
// checked again after the variable is replaced.
func checkURL(raw string) string {
	if len(raw) > 4096 {
		return "it is longer than 4096 bytes"
	}
	if strings.Contains(raw, "${") {
		return ""
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "":
		return "not a valid URL"
	case u.Scheme != "https" && u.Scheme != "http":
		return "a server's URL begins with https:// or http://"
	case u.Hostname() == "":
		return "the URL names no host"
	case u.User != nil:
		return "a name and password in the URL would appear in logs: use headers"
	case u.Fragment != "":
		return "the URL has a #"
	case strings.Contains(strings.ReplaceAll(strings.ToLower(u.EscapedPath()), "%2e", "."), "/.."):
		return "the URL has .. in its path"
	}
	return ""
}

// Clean reduces an untrusted text to one line: at most the given number of
// runes, without control and invisible characters.
func Clean(s string, most int) string { return clean(s, most) }

// clean reduces an untrusted text to one line of at most the given number of
// runes, without control and invisible characters.
func clean(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.ToValidUTF8(s, "�") {
		switch {
		case unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp):
			r = ' '
		case isInvisible(r):
			continue
		}
		if n++; n > most {
			b.WriteRune('…')
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// cleanText is like clean, for a text of several lines.
func cleanText(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.ToValidUTF8(s, "�") {
		if isInvisible(r) || unicode.IsControl(r) && r != '\n' && r != '\t' {
			continue
		}
		if n++; n > most {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// isInvisible reports whether a character is invisible, and so can hide words from a
// person: format characters, tags, and variation selectors.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs) || r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef
}
