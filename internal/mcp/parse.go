package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"aloft/internal/environment"
	"aloft/internal/text"
)

// Files are the files in which a repository configures its servers. Only the first
// existing file is read.
var Files = []string{".aloft/mcp.json", ".cursor/mcp.json"}

// Parse reads the file called name: JSON with comments and trailing commas, as in
//
//	{"mcpServers": {"tickets": {"url": "https://mcp.example.com/mcp"}}}
//
// It returns the servers that can be used, in the order of the file, and the
// problems. It omits only the servers with problems. It also reads the files of
// plugins, in which the servers are at the top level.
func Parse(name string, data []byte, from Source) ([]Server, environment.Findings) {
	r := &reader{file: name, data: bytes.TrimPrefix(data, []byte("\ufeff"))}
	top, ok := r.open()
	if !ok {
		return nil, r.findings
	}
	var servers []Server
	for _, m := range r.servers(top) {
		if s, ok := r.server(m); ok {
			s.Source = from
			servers = append(servers, s)
		}
	}
	if len(servers) > MaxServers {
		r.add(environment.Error, 0, "mcpServers", "remove some", "%d servers are more than the limit of %d; the others are ignored", len(servers), MaxServers)
		servers = servers[:MaxServers]
	}
	slices.SortStableFunc(r.findings, func(a, b environment.Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return servers, r.findings
}

type reader struct {
	file     string
	data     []byte
	findings environment.Findings
}

// maxFindings limits the findings for one file.
const maxFindings = 100

func (r *reader) add(s environment.Severity, at int, key, instead, format string, args ...any) {
	if len(r.findings) >= maxFindings {
		return
	}
	at = min(at, len(r.data))
	line := 1 + bytes.Count(r.data[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(r.data[:at], '\n')
	r.findings = append(r.findings, environment.Finding{
		File: r.file, Line: line, Column: column, Key: clean(key, 200), Severity: s, Message: clean(fmt.Sprintf(format, args...), 300), Instead: clean(instead, 300),
	})
}

func (r *reader) wrong(at int, key, instead, format string, args ...any) {
	r.add(environment.Error, at, key, instead, format, args...)
}

func (r *reader) warn(at int, key, instead, format string, args ...any) {
	r.add(environment.Warning, at, key, instead, format, args...)
}

func (r *reader) open() (hujson.Value, bool) {
	var none hujson.Value
	switch {
	case len(r.data) > MaxFile:
		r.wrong(0, "", "name fewer servers", "the file has %d bytes, more than the limit of %d", len(r.data), MaxFile)
	case !utf8.Valid(r.data):
		r.wrong(0, "", "save the file as UTF-8", "the file is not valid UTF-8")
	case len(bytes.TrimSpace(r.data)) == 0:
		r.wrong(0, "", "write {} or remove the file", "the file is empty")
	case text.CheckJSON(r.data) != nil:
		r.wrong(0, "", `write {"mcpServers": {…}}`, "%v", text.CheckJSON(r.data))
	default:
		v, err := hujson.Parse(slices.Clone(r.data))
		if err != nil {
			var line, column int
			message := strings.TrimPrefix(err.Error(), "hujson: ")
			if n, _ := fmt.Sscanf(message, "line %d, column %d:", &line, &column); n == 2 {
				_, message, _ = strings.Cut(message, ": ")
			}
			r.wrong(r.offset(line, column), "", "fix it; comments and trailing commas are allowed", "not valid JSON: %s", message)
			return none, false
		}
		if _, ok := v.Value.(*hujson.Object); !ok {
			r.wrong(v.StartOffset, "", `write {"mcpServers": {…}}`, "expected an object, not %s", kind(v))
			return none, false
		}
		return v, true
	}
	return none, false
}

// offset converts a line and a column, both counted from 1, to an offset.
func (r *reader) offset(line, column int) int {
	at := 0
	for range line - 1 {
		next := bytes.IndexByte(r.data[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return at + max(column-1, 0)
}

// member is a key and its value.
type member struct {
	key    string
	offset int
	in     string // the key of the surrounding object, with a dot; "" at the top
	hujson.Value
}

func (m member) path() string { return m.in + m.key }

// members returns the members of an object. If a key occurs twice, the last occurrence
// counts.
func (r *reader) members(in string, v hujson.Value) []member {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	var out []member
	for _, m := range o.Members {
		name, ok := m.Name.Value.(hujson.Literal)
		if !ok {
			continue
		}
		next := member{name.String(), m.Name.StartOffset, in, m.Value}
		if at := slices.IndexFunc(out, func(o member) bool { return o.key == next.key }); at >= 0 {
			r.warn(next.offset, next.path(), "keep one", "duplicate key; the last one counts")
			out = slices.Delete(out, at, at+1)
		}
		out = append(out, next)
	}
	return out
}

func find(all []member, key string) (member, bool) {
	at := slices.IndexFunc(all, func(m member) bool { return m.key == key })
	if at < 0 {
		return member{}, false
	}
	return all[at], true
}

// servers finds the object with the servers.
func (r *reader) servers(top hujson.Value) []member {
	all := r.members("", top)
	if m, ok := find(all, "mcpServers"); ok {
		if _, isObject := m.Value.Value.(*hujson.Object); !isObject {
			r.wrong(m.StartOffset, "mcpServers", `write {"name": {"command": …}}`, "expected an object, not %s", kind(m.Value))
			return nil
		}
		for _, other := range all {
			if other.key != "mcpServers" && other.key != "$schema" && other.key != "inputs" {
				r.warn(other.offset, other.path(), "remove it", "Aloft does not know this key")
			}
		}
		return r.members("mcpServers.", m.Value)
	}
	if m, ok := find(all, "servers"); ok {
		r.wrong(m.offset, "servers", "call it mcpServers", "Aloft does not know this key")
		return nil
	}
	var servers []member
	for _, m := range all { // the format of plugins
		keys := r.members("", m.Value)
		_, command := find(keys, "command")
		_, address := find(keys, "url")
		if command || address {
			servers = append(servers, m)
		} else if m.key != "$schema" {
			r.warn(m.offset, m.path(), `write {"mcpServers": {…}}`, "Aloft does not know this key")
		}
	}
	return servers
}

// notHeeded maps unsupported keys of other clients to advice on alternatives.
var notHeeded = map[string]string{
	"autoApprove": "write server:tool into mcpAllowlist of permissions.json",
	"alwaysAllow": "write server:tool into mcpAllowlist of permissions.json",
	"trust":       "write server:tool into mcpAllowlist of permissions.json",
	"timeout":     "remove it: Aloft has its own time limits",
	"cwd":         "remove it: servers start in the workspace",
	"oauth":       "call it auth",
	"environment": "call it env",
}

// server parses one server, and reports whether it can be used.
func (r *reader) server(m member) (Server, bool) {
	s := Server{Name: m.key}
	if _, ok := m.Value.Value.(*hujson.Object); !ok {
		r.wrong(m.StartOffset, m.path(), `write {"command": …} or {"url": …}`, "expected an object, not %s", kind(m.Value))
		return s, false
	}
	before := len(r.findings)
	in := m.path() + "."
	keys := r.members(in, m.Value)
	if off, ok := find(keys, "disabled"); ok && string(r.data[off.StartOffset:off.EndOffset]) == "true" {
		return s, false
	}
	for _, k := range keys {
		switch k.key {
		case "type", "transport":
			s.Type = transport(r.text(k))
		case "command":
			s.Command = r.text(k)
		case "args":
			s.Args = r.texts(k)
		case "env":
			s.Env = r.textMap(k)
		case "envFile":
			s.EnvFile = r.text(k)
		case "url", "serverUrl":
			s.URL = r.text(k)
		case "headers":
			s.Headers = r.textMap(k)
		case "auth":
			s.Auth = r.auth(k)
		case "disabled", "name", "description", "$schema":
		default:
			instead := notHeeded[k.key]
			if instead == "" {
				instead = "remove it; keys are command, args, env, envFile, or url, headers, auth"
			}
			r.warn(k.offset, k.path(), instead, "Aloft does not know this key")
		}
	}
	if r.failedSince(before) {
		return s, false
	}
	for _, p := range s.Check() {
		key, at := m.path(), m.offset
		if p.Key != "" && p.Key != "name" {
			key += "." + p.Key
			first, _, _ := strings.Cut(p.Key, ".")
			first, _, _ = strings.Cut(first, "[")
			if k, ok := find(keys, first); ok {
				at = k.StartOffset
			}
		}
		r.wrong(at, key, p.Instead, "%s", p.Message)
	}
	for _, k := range keys {
		if unknown, ok := isKnown(string(r.data[k.StartOffset:k.EndOffset])); !ok {
			r.warn(k.StartOffset, k.path(), "variables are ${env:NAME}, ${userHome}, ${workspaceFolder}, ${workspaceFolderBasename} and ${pathSeparator}", "%s stays as it is", unknown)
		}
	}
	return s, !r.failedSince(before)
}

func (r *reader) failedSince(n int) bool {
	return r.findings[n:].Worst() == environment.Error || len(r.findings) >= maxFindings
}

// transport parses a transport, including other clients' names.
func transport(s string) Transport {
	switch strings.ToLower(s) {
	case "streamable-http", "streamablehttp", "streamable_http":
		return HTTP
	}
	return Transport(s)
}

func (r *reader) auth(m member) *Auth {
	if _, ok := m.Value.Value.(*hujson.Object); !ok {
		r.wrong(m.StartOffset, m.path(), `write {"CLIENT_ID": …}`, "expected an object, not %s", kind(m.Value))
		return nil
	}
	a := &Auth{}
	for _, k := range r.members(m.path()+".", m.Value) {
		switch k.key {
		case "CLIENT_ID":
			a.ClientID = r.text(k)
		case "CLIENT_SECRET":
			a.ClientSecret = r.text(k)
		case "scopes":
			a.Scopes = r.texts(k)
		default:
			r.warn(k.offset, k.path(), "remove it; keys are CLIENT_ID, CLIENT_SECRET and scopes", "Aloft does not know this key")
		}
	}
	return a
}

func (r *reader) text(m member) string {
	s, ok := str(m.Value)
	if !ok {
		r.wrong(m.StartOffset, m.path(), "write text in double quotes", "this is %s", kind(m.Value))
	}
	return s
}

func (r *reader) texts(m member) []string {
	list, ok := m.Value.Value.(*hujson.Array)
	if !ok {
		r.wrong(m.StartOffset, m.path(), `write a list of texts, ["…"]`, "this is %s", kind(m.Value))
		return nil
	}
	out := []string{}
	for i, e := range list.Elements {
		out = append(out, r.text(member{key: fmt.Sprintf("%s[%d]", m.key, i), offset: e.StartOffset, in: m.in, Value: e}))
	}
	return out
}

func (r *reader) textMap(m member) map[string]string {
	if _, ok := m.Value.Value.(*hujson.Object); !ok {
		r.wrong(m.StartOffset, m.path(), `write {"NAME": "value"}`, "expected an object, not %s", kind(m.Value))
		return nil
	}
	out := map[string]string{}
	for _, k := range r.members(m.path()+".", m.Value) {
		if v, ok := k.Value.Value.(hujson.Literal); ok && (v.Kind() == '0' || v.Kind() == 't' || v.Kind() == 'f') { // people often write {"PORT": 8080}
			out[k.key] = string(v)
			continue
		}
		out[k.key] = r.text(k)
	}
	return out
}

func str(v hujson.Value) (string, bool) {
	l, ok := v.Value.(hujson.Literal)
	if !ok || l.Kind() != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(l, &s)
	return s, err == nil
}

// kind returns the type of a value for people. It does not show the value, which may be
// a secret.
func kind(v hujson.Value) string {
	switch v.Value.Kind() {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "text"
	case '0':
		return "a number"
	case 'n':
		return "null"
	}
	return "true or false"
}
