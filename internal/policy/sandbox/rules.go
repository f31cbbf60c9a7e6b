package sandbox

import (
	"path"
	"slices"
	"strings"
)

// Scope describes where a policy applies. Its paths are absolute and without
// symbolic links.
type Scope struct {
	Workspaces []string
	Home       string   // replaces ~ in paths; "" if there is none
	Temp       []string // folders for temporary files
	Hidden     []string // paths matched by .cursorignore, and sockets that lead out of the sandbox
	Nested     []string // repositories within the workspaces
}

// Grant is an accessible path, including everything below it, and its reason.
type Grant struct {
	Path, Rule string
}

// Rules are a policy applied to a scope: every path is absolute and clean.
type Rules struct {
	Policy     Policy
	Writable   []Grant
	Readable   []Grant // nil means all files
	ReadOnly   []Grant // read-only paths inside writable ones
	Hidden     []string
	Workspaces []string
	Nested     []string // repositories in workspaces, whose git files are protected too
	Home       string   // home folder, whose start-up files are protected; "" if there is none
}

// SystemPaths are readable even with the boundary Workspace: programs, and the
// files that they need to start.
var SystemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap",
	"/dev", "/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup", "/var/lib/dpkg", "/var/cache/fontconfig", "/exec-daemon",
}

// buildCaches are paths relative to the home folder.
var buildCaches = []string{
	".cache", "go/pkg", ".npm", ".yarn", ".bun/install/cache", ".local/share/pnpm/store", ".cargo/registry", ".cargo/git",
	".gradle/caches", ".m2/repository", ".nuget/packages", ".ivy2", ".sbt", ".gem", ".bundle/cache", ".composer/cache", ".pub-cache",
}

// In returns the rules of a policy for a scope.
func (p Policy) In(place Scope) Rules {
	r := Rules{Policy: p, Hidden: place.Hidden, Workspaces: place.Workspaces, Nested: place.Nested, Home: place.Home}
	full := place.path
	if p.Type == ReadWrite {
		for _, dir := range place.Workspaces {
			r.Writable = append(r.Writable, Grant{path.Clean(dir), "type " + string(p.Type)})
		}
	}
	for _, name := range p.ReadWrite {
		r.Writable = append(r.Writable, Grant{full(name), "additionalReadwritePaths " + name})
	}
	if !p.DisableTmpWrite {
		for _, dir := range place.Temp {
			r.Writable = append(r.Writable, Grant{path.Clean(dir), "temporary files"})
		}
	}
	if p.SharedBuildCache && place.Home != "" {
		for _, dir := range buildCaches {
			r.Writable = append(r.Writable, Grant{path.Join(place.Home, dir), "enableSharedBuildCache"})
		}
	}
	for _, name := range p.ReadOnly {
		r.ReadOnly = append(r.ReadOnly, Grant{full(name), "additionalReadonlyPaths " + name})
	}
	if p.Type == ReadOnly {
		for _, dir := range place.Workspaces {
			r.ReadOnly = append(r.ReadOnly, Grant{path.Clean(dir), "type " + string(p.Type)})
		}
	}
	if p.ReadBoundary == Workspace {
		for _, dir := range SystemPaths {
			r.Readable = append(r.Readable, Grant{dir, "system"})
		}
		for _, dir := range place.Workspaces {
			r.Readable = append(r.Readable, Grant{path.Clean(dir), "workspace"})
		}
		for _, name := range slices.Concat(p.Read, p.ReadOnly) {
			r.Readable = append(r.Readable, Grant{full(name), "additionalReadPaths " + name})
		}
		r.Readable = append(r.Readable, r.Writable...)
	}
	return r
}

// path makes a path from a file absolute: ~ is the home folder, and relative
// paths are relative to the first workspace.
func (p Scope) path(name string) string {
	switch {
	case p.Home != "" && (name == "~" || strings.HasPrefix(name, "~/")):
		return path.Join(p.Home, name[1:])
	case path.IsAbs(name) || len(p.Workspaces) == 0:
		return path.Clean("/" + name)
	}
	return path.Join(p.Workspaces[0], name)
}

// Access is a kind of access to a path.
type Access int

// The kinds of access.
const (
	Read Access = iota
	Write
)

// Verdict is the decision about one path.
type Verdict struct {
	Allowed bool
	Rule    string // the deciding rule
	Ask     string // how to get permission; "" if that is impossible
}

// Judge judges a path, which must be absolute and without symbolic links. It
// compares protected names case-insensitively, as some file systems do.
func (r Rules) Judge(access Access, name string) Verdict {
	name = path.Clean("/" + name)
	if r.Policy.Type == InsecureNone {
		return Verdict{Allowed: true, Rule: "type insecure_none"}
	}
	for _, h := range r.Hidden {
		if Below(h, name) {
			return Verdict{Rule: "hidden " + h, Ask: "remove it from .cursorignore"}
		}
	}
	if access == Read {
		if r.Readable == nil {
			return Verdict{Allowed: true, Rule: "readBoundary system"}
		}
		if g, ok := deepest(r.Readable, name); ok {
			return Verdict{Allowed: true, Rule: g.Rule}
		}
		return Verdict{Rule: "readBoundary workspace", Ask: "add it to additionalReadPaths of sandbox.json"}
	}
	g, ok := deepest(r.Writable, name)
	if !ok {
		if slices.Contains(Devices, name) {
			return Verdict{Allowed: true, Rule: "device"}
		}
		rule := "outside what type " + string(r.Policy.Type) + " lets change"
		if ro, ok := deepest(r.ReadOnly, name); ok {
			rule = ro.Rule
		}
		return Verdict{Rule: rule, Ask: "add it to additionalReadwritePaths of sandbox.json, or ask to run the command outside the sandbox"}
	}
	fixed := slices.DeleteFunc(slices.Clone(r.ReadOnly), func(ro Grant) bool { return nearer(g, ro, r.Policy) })
	if ro, ok := deepest(fixed, name); ok {
		return Verdict{Rule: ro.Rule, Ask: "remove it from additionalReadonlyPaths of sandbox.json"}
	}
	if p, ok := r.protects(name); ok {
		return Verdict{Rule: "protected " + p, Ask: "ask the user to change it, or to run the command outside the sandbox"}
	}
	return Verdict{Allowed: true, Rule: g.Rule}
}

// protects returns the built-in rule that protects a path.
func (r Rules) protects(name string) (rule string, ok bool) {
	for i, root := range slices.Concat(r.Roots(), r.Nested) {
		p, ok := protecting(Protections, root, name)
		if ok && (i < len(r.Roots()) || strings.HasPrefix(p, ".git/")) {
			return p, true
		}
	}
	if r.Home == "" {
		return "", false
	}
	return protecting(HomeProtections, r.Home, name)
}

// Changeable returns the writable grants that no read-only path covers: everything below
// a read-only path, even /, is read-only. real resolves paths before they are compared.
func (r Rules) Changeable(real func(string) string) []Grant {
	var open []Grant
	for _, w := range r.Writable {
		at := Grant{real(w.Path), w.Rule}
		covered := slices.ContainsFunc(r.ReadOnly, func(ro Grant) bool {
			ro.Path = real(ro.Path)
			return Below(ro.Path, at.Path) && !nearer(at, ro, r.Policy)
		})
		if !covered {
			open = append(open, w)
		}
	}
	return open
}

// nearer reports whether a writable path is inside a path that is read-only because of
// the policy's type, such as a folder for temporary files in a read-only workspace.
func nearer(writable, readonly Grant, p Policy) bool {
	return readonly.Rule == "type "+string(ReadOnly) && Below(readonly.Path, writable.Path) && writable.Path != readonly.Path && p.Type == ReadOnly
}

// Roots returns the folders in which names are protected: each workspace, and each
// additional writable folder.
func (r Rules) Roots() []string {
	roots := slices.Clone(r.Workspaces)
	for _, g := range r.Writable {
		if strings.HasPrefix(g.Rule, "additionalReadwritePaths ") {
			roots = unite(roots, []string{g.Path})
		}
	}
	return roots
}

// Devices may be written to in every sandbox.
var Devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"}

// Below reports whether name is dir or inside it.
func Below(dir, name string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

func deepest(grants []Grant, name string) (best Grant, ok bool) {
	for _, g := range grants {
		if Below(g.Path, name) && (!ok || len(g.Path) > len(best.Path)) {
			best, ok = g, true
		}
	}
	return best, ok
}
