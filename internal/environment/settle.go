package environment

import (
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// position is a location in the file.
type position struct {
	key    string // the key as written in the file
	offset int
}

// recordPosition records the location of a list's item. The item's index changes when
// lists are flattened or items are left out.
func (d *decoder) recordPosition(at string, index int, list string, offset int) {
	if strings.Contains(list, ".") {
		return // the locations are not needed
	}
	if i := strings.IndexByte(list, '['); i >= 0 {
		list = list[:i]
	}
	d.positions[list+"["+strconv.Itoa(index)+"]"] = position{at, offset}
}

// open parses the bytes of a file.
func (d *decoder) open(data []byte) (node, bool) {
	d.positions = map[string]position{}
	d.index("")
	switch {
	case len(data) > MaxSize:
		d.wrong(0, "", "move long scripts to files of their own and call those", "the file has %d bytes, more than the limit of %d", len(data), MaxSize)
		return node{}, false
	case strings.HasPrefix(string(data), "\xff\xfe") || strings.HasPrefix(string(data), "\xfe\xff"):
		d.wrong(0, "", "save it as UTF-8", "the file is UTF-16")
		return node{}, false
	}
	source := string(data)
	if bom, ok := strings.CutPrefix(source, "\ufeff"); ok {
		source = bom
	}
	d.index(source)
	if !utf8.ValidString(source) {
		bad := strings.IndexFunc(strings.ToValidUTF8(source, "\uffff"), func(r rune) bool { return r == '\uffff' })
		d.wrong(max(bad, 0), "", "save the file as UTF-8", "invalid UTF-8")
		source = strings.ToValidUTF8(source, "\ufffd")
		d.index(source)
	}
	if strings.TrimSpace(source) == "" {
		d.wrong(0, "", "write {} or remove the file", "the file is empty")
		return node{}, false
	}
	n, err := readJSONC(source)
	if err != nil {
		d.wrong(err.offset, "", err.instead, "%s", err.message)
		return node{}, false
	}
	return n, true
}

// validate validates combinations of keys and makes the environment usable. dir
// is the folder of the file.
func (d *decoder) validate(e *Environment, dir string) {
	d.settleBase(e, dir)
	d.settleTerminals(e.Terminals)
	seen := map[int]bool{}
	kept := e.Ports[:0]
	for i, p := range e.Ports {
		if seen[p.Port] {
			at := d.positions["ports["+strconv.Itoa(i)+"]"]
			d.warn(at.offset, at.key, "keep one", "duplicate port %d", p.Port)
			continue
		}
		seen[p.Port] = true
		kept = append(kept, Port{p.Port, clean(p.Name, 255)})
	}
	e.Ports = kept
	e.Name = clean(e.Name, 255)
	if m := d.positions["mcpServerAllowlist"]; e.DisableAllMCPServers && len(e.MCPServerAllowlist) > 0 {
		d.warn(m.offset, m.key, "keep one of them", "it has no effect together with disableAllMcpServers")
	}
	d.settleEgress(e)
}

// settleEgress sets the mode of an allow list without a mode so that only the listed
// hosts are reachable, and warns about a list that its mode ignores.
func (d *decoder) settleEgress(e *Environment) {
	m, there := d.positions["egressAllowlist"]
	if !there {
		return
	}
	switch {
	case e.EgressMode == "":
		e.EgressMode = EgressDefaultWithSettings
		d.warn(m.offset, m.key, "add \"egressMode\"", "without egressMode it counts as with %s: the list and the usual package hosts are reached, and nothing else", EgressDefaultWithSettings)
	case len(e.EgressAllowlist) > 0 && (e.EgressMode == EgressAllowAll || e.EgressMode == EgressParentPlusSettings):
		d.warn(m.offset, m.key, "keep one of them", "it has no effect together with egressMode %s, since an environment cannot widen the network", e.EgressMode)
	}
}

func (d *decoder) settleBase(e *Environment, dir string) {
	if b := e.Build; b != nil {
		at := d.positions["build"]
		ok := true
		if b.Dockerfile != "" {
			b.Dockerfile, ok = d.pathInside(at, "dockerfile", dir, b.Dockerfile)
		}
		switch b.Context {
		case "":
			b.Context = path.Clean(dir)
		case ".", "./", "..", "../":
			b.Context = "."
		default:
			var fine bool
			b.Context, fine = d.pathInside(at, "context", dir, b.Context)
			ok = ok && fine
		}
		if !ok {
			e.Build = nil
		}
	}
	image := d.positions["image"]
	switch {
	case e.Image != "" && e.Build != nil && e.Snapshot == "":
		d.wrong(image.offset, image.key, "keep one of them", "image and build are both set; build takes precedence")
		e.Image = ""
	case e.Image != "" && e.Build != nil:
		d.wrong(image.offset, image.key, "keep one of them", "image and build are both set together with snapshot; build replaces image")
		e.Image = ""
	}
	if may := d.positions["agentCanUpdateSnapshot"]; e.AgentCanUpdateSnapshot != nil && *e.AgentCanUpdateSnapshot && !e.MaySave() {
		d.warn(may.offset, may.key, "remove it", "it has no effect together with image or build: they are rebuilt from their source")
	}
}

// pathInside resolves a path relative to the file's folder, and rejects a path that
// leaves the repository.
func (d *decoder) pathInside(at position, key, dir, p string) (string, bool) {
	if strings.HasPrefix(p, "/") || strings.Contains(p, `\`) {
		d.wrong(at.offset, at.key+"."+key, "write it from the folder "+dir+", with /", "%q is not a path in the repository", clean(p, 100))
		return "", false
	}
	joined := path.Join(dir, p)
	if joined == ".." || strings.HasPrefix(joined, "../") {
		d.wrong(at.offset, at.key+"."+key, "write a path that stays within it; .. is the root of the repository", "%q leaves the repository", clean(p, 100))
		return "", false
	}
	return joined, true
}

// settleTerminals gives each terminal a unique name on one line.
func (d *decoder) settleTerminals(terminals []Terminal) {
	taken := map[string]bool{}
	for i := range terminals {
		t := &terminals[i]
		at := d.positions["terminals["+strconv.Itoa(i)+"]"]
		original := t.Name
		t.Name = strings.Join(strings.Fields(clean(original, 100)), " ")
		if original != "" && strings.ContainsAny(original, "\n\r") {
			d.warn(at.offset, at.key+".name", "write "+strconv.Quote(t.Name), "the name has more than one line")
		}
		if t.Name == "" {
			t.Name = "terminal " + strconv.Itoa(i+1)
		}
		name := t.Name
		for n := 2; taken[t.Name]; n++ {
			t.Name = name + " " + strconv.Itoa(n)
		}
		if original != "" && t.Name != name {
			d.warn(at.offset, at.key+".name", "give each a unique name", "duplicate name; this one is renamed to %q", t.Name)
		}
		taken[t.Name] = true
	}
}
