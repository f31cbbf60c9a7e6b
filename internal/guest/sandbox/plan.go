package sandbox

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"aloft/internal/policy"
	sandboxpolicy "aloft/internal/policy/sandbox"
)

type planner struct {
	Layout
	spec   Spec
	kernel Kernel
	tree   Tree
	mounts map[string]Mount
}

func (p *planner) missing(format string, args ...any) {
	p.Missing = append(p.Missing, fmt.Sprintf(format, args...))
}

// isolate returns the namespaces that a policy needs, which does not depend on the file
// system. A command that does not use the host's network always gets its own network
// namespace.
func isolate(pol sandboxpolicy.Policy, k Kernel) Layout {
	return Layout{
		User: k.owner(), Mount: k.Namespaces, IPC: k.Namespaces,
		Network: k.Namespaces && !pol.UnrestrictedHosts,
		Proxy:   k.Namespaces && !pol.UnrestrictedHosts && pol.Network.Mode != policy.None,
	}
}

// network records which network rules cannot be enforced.
func (p *planner) network() {
	pol := p.spec.Rules.Policy
	switch {
	case pol.UnrestrictedHosts:
		if p.kernel.Landlock < scopeABI {
			p.missing("abstract unix sockets of the host: Landlock ABI %d (Linux 6.12)", scopeABI)
		}
	case !p.kernel.Namespaces && pol.Network.Mode != policy.None:
		p.missing("a network limited to a list: it needs a network namespace (%s)", cmp.Or(p.kernel.Why, "none can be created"))
	}
	p.Filter = Filter{Inet: p.Network || pol.UnrestrictedHosts, Unix: p.kernel.Namespaces, Xattr: !p.kernel.OldMounts, Ptrace: p.kernel.Landlock > 0 || p.User}
}

func (p *planner) files() {
	switch abi := p.kernel.Landlock; {
	case abi >= ioctlABI:
		p.Files = allAccess
	case abi >= filesABI:
		p.Files = allAccess &^ ll.AccessFSIoctlDev
	case p.kernel.Namespaces: // mounts enforce the rules
	default:
		p.missing("files: Landlock ABI %d (Linux 6.2), or namespaces", filesABI)
	}
	// Landlock does not restrict changes of modes, owners and times; read-only
	// mounts do.
	p.Frozen = p.kernel.Namespaces
	p.OldMounts = p.kernel.Namespaces && p.kernel.OldMounts
	if p.kernel.Landlock >= scopeABI {
		p.Scope = ll.ScopeSignal
		if p.spec.Rules.Policy.UnrestrictedHosts {
			p.Scope |= ll.ScopeAbstractUnixSocket
		}
	}
}

// withoutMounts records what cannot be enforced without mounts.
func (p *planner) withoutMounts() {
	why := cmp.Or(p.kernel.Why, "none can be created")
	for _, root := range p.spec.Rules.Roots() {
		if p.writable(root) {
			p.missing("protected paths in %s: a mount namespace (%s)", root, why)
		}
	}
	for _, g := range p.spec.Rules.ReadOnly {
		if p.writable(g.Path) {
			p.missing("%s: a mount namespace (%s)", g.Rule, why)
		}
	}
	if len(p.spec.Rules.Hidden) > 0 {
		p.missing("hidden files: a mount namespace (%s)", why)
	}
}

// writable reports whether the Landlock rules allow changing a path.
func (p *planner) writable(name string) bool {
	return slices.ContainsFunc(p.spec.Rules.Writable, func(g sandboxpolicy.Grant) bool { return sandboxpolicy.Below(p.resolve(g.Path), name) })
}

// resolve returns a path with links resolved, as Landlock and mounts require.
func (p *planner) resolve(name string) string { return cmp.Or(p.tree.Resolve(name), name) }

// holes plans mounts for exceptions within paths, which Landlock cannot
// express.
func (p *planner) holes() {
	for _, g := range p.spec.Rules.Writable {
		if name := p.resolve(g.Path); p.tree.Kind(name) != None {
			p.mount(name, Writable)
		}
	}
	for _, g := range p.spec.Rules.ReadOnly {
		p.fix(p.resolve(g.Path), Dir)
	}
	for _, root := range p.spec.Rules.Roots() {
		if root = p.resolve(root); p.writable(root) && p.tree.Kind(root) == Dir {
			p.protect(root, sandboxpolicy.Protections)
			p.repository(path.Join(root, ".git"), 0)
		}
	}
	for _, root := range p.spec.Rules.Nested {
		if root = p.resolve(root); p.writable(root) && p.tree.Kind(root) == Dir {
			p.protect(root, ofGit)
			p.repository(path.Join(root, ".git"), 0)
		}
	}
	if home := p.spec.Rules.Home; home != "" {
		if home = p.resolve(home); p.writable(home) && p.tree.Kind(home) == Dir {
			p.protect(home, sandboxpolicy.HomeProtections)
		}
	}
	for _, name := range p.spec.Rules.Hidden {
		if at := p.tree.Resolve(name); at != "" {
			p.mount(at, Masked)
		}
	}
	for _, name := range p.spec.Masked {
		// Parent folders need no anchor: if one is renamed, the mask moves with
		// it.
		at := p.tree.Resolve(name)
		if m, ok := p.mounts[at]; at != "" && (!ok || m.Mode < Masked) {
			p.mounts[at] = Mount{Path: at, Mode: Masked, Kind: p.tree.Kind(at), Fleeting: p.tree.Kind(at) == Other}
		}
	}
	p.boundary()
	p.keep()
	if p.tree.Kind("/dev/pts") == Dir {
		p.mounts["/dev/pts"] = Mount{Path: "/dev/pts", Mode: Masked, Kind: Dir}
	}
	for _, m := range p.mounts {
		if !m.Mode.stays() && p.isHidden(m.Path) {
			continue
		}
		p.Mounts = append(p.Mounts, m)
	}
	slices.SortFunc(p.Mounts, func(a, b Mount) int {
		// A kept path is mounted inside its mask, so the mask comes first.
		return cmp.Or(cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")), cmp.Compare(a.Path, b.Path))
	})
	masksFile := slices.ContainsFunc(p.Mounts, func(m Mount) bool { return m.Mode == Masked && m.Kind != Dir })
	if p.OldMounts && masksFile && p.blankDir() == "" {
		p.missing("hidden files: a folder below / that can be masked, such as /run, or mount_setattr (Linux 5.12)")
	}
	p.spellings()
	slices.SortFunc(p.Placeholders, func(a, b Placeholder) int { return cmp.Compare(a.Path, b.Path) })
}

// spellings records mounted paths that could be reached under another spelling.
func (p *planner) spellings() {
	told := map[string]bool{}
	for _, m := range p.Mounts {
		dir := path.Dir(m.Path)
		if m.Mode != Fixed && m.Mode != Masked || told[dir] {
			continue
		}
		told[dir] = true
		if p.tree.Folds(dir) {
			p.missing("protected names in %s: its file system ignores case, and does not report that to the kernel", dir)
		}
	}
}

// boundary restricts reading without Landlock: it masks every entry of the root folder
// that no rule allows, but keeps paths below the entry that a rule allows.
func (p *planner) boundary() {
	if p.Files != 0 || p.spec.Rules.Readable == nil {
		return
	}
	for _, name := range p.tree.Names("/") {
		at := path.Join("/", name)
		open := slices.ContainsFunc(p.spec.Rules.Readable, func(g sandboxpolicy.Grant) bool { return sandboxpolicy.Below(p.resolve(g.Path), at) })
		// A link's target is checked on its own.
		if kind := p.tree.Kind(at); !open && kind != Link && kind != None {
			p.mounts[at] = Mount{Path: at, Mode: Masked, Kind: kind}
		}
	}
}

// keep keeps the paths that the policy names inside masked folders.
func (p *planner) keep() {
	kept := slices.Clone(p.spec.Kept)
	if p.Files == 0 {
		for _, g := range p.spec.Rules.Readable {
			kept = append(kept, g.Path)
		}
	}
	for _, g := range slices.Concat(p.spec.Rules.Writable, p.spec.Rules.ReadOnly) {
		kept = append(kept, g.Path)
	}
	kept = append(kept, p.spec.Rules.Workspaces...)
	for _, name := range kept {
		at := p.tree.Resolve(name)
		if at == "" || slices.Contains(p.spec.Rules.Hidden, at) || !p.isHidden(at) {
			continue
		}
		mode := Kept
		if m, ok := p.mounts[at]; !p.writable(at) {
			mode = Shown
			if ok && m.Mode == Masked {
				mode = Masked
			}
		}
		p.mounts[at] = Mount{Path: at, Mode: mode, Kind: p.tree.Kind(at)}
	}
}

// isHidden reports whether a path is inside a mask and not kept.
func (p *planner) isHidden(name string) bool {
	m, ok := p.above(name)
	return ok && (m.Mode == Masked || !m.Mode.stays() && p.isHidden(m.Path))
}

// stays reports whether a mount remains visible inside a mask above it.
func (m Mode) stays() bool { return m == Kept || m == Shown }

// above returns the nearest mount above name.
func (p *planner) above(name string) (Mount, bool) {
	for dir := path.Dir(name); name != "/"; dir = path.Dir(dir) {
		if m, ok := p.mounts[dir]; ok {
			return m, true
		}
		if dir == "/" {
			break
		}
	}
	return Mount{}, false
}

// mount adds a mount, and anchors the folders above it that could be renamed.
func (p *planner) mount(name string, mode Mode) {
	if m, ok := p.mounts[name]; ok && m.Mode >= mode {
		return
	}
	kind := p.tree.Kind(name)
	if kind == None {
		for _, h := range p.Placeholders {
			if h.Path == name {
				kind = h.Kind
			}
		}
	}
	p.mounts[name] = Mount{Path: name, Mode: mode, Kind: kind}
	if dir := path.Dir(name); dir != "/" && p.writable(path.Dir(dir)) {
		p.mount(dir, Anchor)
	}
}

// fix makes a path unchangeable. If the path does not exist, fix plans a
// placeholder for its first missing component.
func (p *planner) fix(name string, kind Kind) {
	if !p.writable(name) {
		return
	}
	missing := name
	for dir := path.Dir(name); p.tree.Kind(dir) == None && dir != "/"; dir = path.Dir(dir) {
		missing, kind = dir, Dir
	}
	if p.tree.Kind(missing) == None && !slices.ContainsFunc(p.Placeholders, func(h Placeholder) bool { return h.Path == missing }) {
		p.Placeholders = append(p.Placeholders, Placeholder{Path: missing, Kind: kind})
		if kind == File && path.Base(path.Dir(missing)) != "info" {
			// A masked file is a device, which git ignores; git would offer to
			// add an empty file.
			p.mount(missing, Masked)
			return
		}
	}
	p.mount(missing, Fixed)
}

// ofGit are the git rules for a repository that is not a root.
var ofGit = slices.DeleteFunc(slices.Clone(sandboxpolicy.Protections), func(r sandboxpolicy.Protection) bool { return !strings.HasPrefix(r.Name, ".git/") })

// maxModules limits how deep submodule names may be nested.
const maxModules = 8

// repository protects the folders in a repository's git folder that belong to other
// repositories and worktrees: submodules, whose names may have slashes, and worktrees.
func (p *planner) repository(git string, depth int) {
	if p.tree.Kind(git) != Dir || depth > maxModules {
		return
	}
	if name := path.Join(git, "config.worktree"); p.tree.Kind(name) != None {
		p.link(name, File)
	}
	for _, tree := range p.tree.Names(path.Join(git, "worktrees")) {
		for _, name := range []string{"commondir", "gitdir", "config.worktree"} {
			if at := path.Join(git, "worktrees", tree, name); p.tree.Kind(at) != None {
				p.link(at, File)
			}
		}
	}
	p.modules(path.Join(git, "modules"), depth)
}

func (p *planner) modules(dir string, depth int) {
	if p.tree.Kind(dir) != Dir || depth > maxModules {
		return
	}
	for _, name := range p.tree.Names(dir) {
		module := path.Join(dir, name)
		if p.tree.Kind(module) != Dir {
			continue
		}
		if p.tree.Kind(path.Join(module, "config")) == None && p.tree.Kind(path.Join(module, "HEAD")) == None {
			p.modules(module, depth+1)
			continue
		}
		p.link(path.Join(module, "config"), File)
		p.link(path.Join(module, "hooks"), Dir)
		p.repository(module, depth+1)
	}
}

// protect applies rules to one root.
func (p *planner) protect(root string, rules []sandboxpolicy.Protection) {
	for _, rule := range rules {
		if rule.Late {
			p.Late = append(p.Late, path.Join(root, rule.Name))
			for _, name := range p.glob(root, rule.Name) {
				p.link(name, File)
			}
			continue
		}
		kind := File
		if rule.Dir {
			kind = Dir
		}
		name := path.Join(root, rule.Name)
		at := p.link(name, kind)
		if at == "" || p.tree.Kind(at) != Dir {
			continue
		}
		for _, open := range rule.Open {
			p.open(path.Join(at, open))
		}
	}
}

// open makes a folder writable that is inside a read-only folder.
func (p *planner) open(name string) {
	switch p.tree.Kind(name) {
	case Dir:
	case None:
		if p.tree.IsPlaceholder(path.Dir(name)) {
			return // the folder was another sandbox's placeholder and is gone
		}
		p.Placeholders = append(p.Placeholders, Placeholder{Path: name, Kind: Dir})
	default:
		return // a link could point to a protected path
	}
	p.mounts[name] = Mount{Path: name, Mode: Writable, Kind: Dir}
}

// link protects a path. If the path or a folder above it is a link, link also protects
// its target. It returns the target, or "" if the target does not exist. The link itself
// is protected too, because it could be replaced.
func (p *planner) link(name string, kind Kind) string {
	for dir := name; dir != "/" && p.writable(path.Dir(dir)); dir = path.Dir(dir) {
		if p.tree.Kind(dir) == Link {
			p.mount(dir, Fixed)
			// The target is protected at its own path. If the target does not
			// exist yet, the sandbox could create it, so nothing may be created
			// there.
			if at := p.tree.Resolve(name); at != "" {
				p.fix(at, kind)
				return at
			}
			p.missing("protected %s: the link %s has no target; remove it", name, dir)
			return ""
		}
	}
	for dir := path.Dir(name); dir != "/" && p.writable(path.Dir(dir)); dir = path.Dir(dir) {
		if k := p.tree.Kind(dir); k != Dir && k != None {
			p.fix(dir, File) // a worktree's .git file
			return ""
		}
	}
	p.fix(name, kind)
	return p.tree.Resolve(name)
}

// glob returns the names in the pattern's folder that match it.
func (p *planner) glob(root, pattern string) []string {
	dir, last := path.Split(path.Join(root, pattern))
	var found []string
	for _, name := range p.tree.Names(path.Clean(dir)) {
		if ok, err := path.Match(last, strings.ToLower(name)); ok && err == nil {
			found = append(found, dir+name)
		}
	}
	return found
}

// rights plans the Landlock rules.
func (p *planner) rights() {
	if p.Files == 0 {
		return
	}
	given := map[string]int{}
	give := func(name string, access uint64) {
		if p.tree.Kind(name) != Dir {
			access &= fileAccess
		}
		if p.tree.Kind(name) == None {
			return
		}
		if i, ok := given[name]; ok {
			p.Paths[i].Access |= access & p.Files
			return
		}
		given[name] = len(p.Paths)
		p.Paths = append(p.Paths, PathRule{Path: name, Access: access & p.Files})
	}
	if p.spec.Rules.Readable == nil {
		give("/", readAccess)
	}
	for _, g := range p.spec.Rules.Readable {
		give(p.resolve(g.Path), readAccess)
	}
	for _, g := range p.spec.Rules.Writable {
		give(p.resolve(g.Path), writeAccess)
	}
	for _, device := range sandboxpolicy.Devices {
		if name := p.tree.Resolve(device); name != "" {
			give(name, deviceAccess)
		}
	}
	for _, s := range p.spec.Streams {
		rule := PathRule{FD: s.FD}
		if s.Read {
			rule.Access |= ll.AccessFSReadFile & p.Files
		}
		if s.Write {
			rule.Access |= (ll.AccessFSWriteFile | ll.AccessFSTruncate) & p.Files
		}
		p.Paths = append(p.Paths, rule)
	}
}
