package image

import (
	"bytes"
	"io/fs"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// sources collects which of the host's package sources machines may use.
type sources struct {
	locked    []string // hosts, and hosts with a path, for which apt has a password
	addresses []string // addresses of the sources that machines see
	dropped   []string // addresses of the sources that they do not see
	shown     int      // how many sources machines see; one may have several addresses
	hidden    int      // how many sources they do not see
}

// aptSettings lists the settings of apt that a machine takes over from the host.
// The others are left out: hooks would run programs of the host, and the rest may
// contain passwords.
var aptSettings = map[string]bool{
	"APT::Architecture": true, "APT::Architectures::": true, "APT::Default-Release": true,
	"APT::Install-Recommends": true, "APT::Install-Suggests": true,
	"Acquire::By-Hash": true, "Acquire::Check-Date": true, "Acquire::Check-Valid-Until": true, "Acquire::Max-ValidTime": true,
	"Acquire::ForceIPv4": true, "Acquire::ForceIPv6": true, "Acquire::Languages::": true,
	"Acquire::http::Proxy": true, "Acquire::https::Proxy": true,
}

// addSources adds the files with which apt installs packages from the same
// sources as the host: sources, public keys, pinning, settings and package
// lists. It omits passwords and sources that need one, because apt-get update
// fails if one source fails. It returns which sources it added and omitted.
func (h host) addSources(t *tree) *sources {
	s := &sources{locked: h.lockedHosts()}
	if !t.like(h.root, "etc/apt") {
		return s
	}
	for _, name := range h.list("etc/apt/mirrors") {
		t.file(name, 0o644, 0, s.mirrors(h.text(name)))
	}
	for _, name := range append([]string{"etc/apt/sources.list"}, h.list("etc/apt/sources.list.d")...) {
		var kept []byte
		switch path.Ext(name) {
		case ".list":
			kept = s.lines(h.text(name))
		case ".sources":
			kept = s.stanzas(h.text(name))
		}
		if len(kept) > 0 {
			t.file(name, 0o644, 0, kept)
		}
	}
	for _, name := range append([]string{"etc/apt/trusted.gpg"}, slices.Concat(h.list("etc/apt/trusted.gpg.d"), h.list("etc/apt/keyrings"))...) {
		if text := h.text(name); isPublicKey(text) {
			t.file(name, 0o644, 0, text)
		}
	}
	for _, name := range append([]string{"etc/apt/preferences"}, h.list("etc/apt/preferences.d")...) {
		if kept := fieldsOf(h.text(name), "package", "pin", "pin-priority"); len(kept) > 0 {
			t.file(name, 0o644, 0, kept)
		}
	}
	t.file("etc/apt/apt.conf.d/90aloft", 0o644, 0, s.settings(h.settings))
	for _, name := range h.list("var/lib/apt/lists") {
		if s.listed(path.Base(name)) {
			t.copyLater(h.root, name)
		}
	}
	return s
}

// list returns the world-readable regular files in a folder of the host.
func (h host) list(dir string) (names []string) {
	entries, _ := fs.ReadDir(h.root.FS(), dir) // a missing folder is empty
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names
}

// text returns the content of a small world-readable file, or nil.
func (h host) text(name string) []byte {
	info, err := h.root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o004 == 0 || info.Size() > maxCopied {
		return nil
	}
	data, _ := h.root.ReadFile(name)
	return data
}

// lockedHosts returns the hosts for which apt has a password. The files have the
// form of netrc: "machine HOST login NAME password WORD".
func (h host) lockedHosts() (hosts []string) {
	names := []string{"etc/apt/auth.conf"}
	entries, _ := fs.ReadDir(h.root.FS(), "etc/apt/auth.conf.d")
	for _, e := range entries {
		names = append(names, path.Join("etc/apt/auth.conf.d", e.Name()))
	}
	for _, name := range names {
		data, _ := h.root.ReadFile(name) // usually only root may read it
		words := strings.Fields(string(data))
		for i, w := range words {
			if w == "machine" && i+1 < len(words) {
				_, host, ok := strings.Cut(words[i+1], "://")
				if !ok {
					host = words[i+1]
				}
				hosts = append(hosts, strings.TrimSuffix(host, "/"))
			}
		}
	}
	return hosts
}

// aToken matches a path segment that looks like a secret. Some package services
// put secrets into the addresses of private sources.
var aToken = regexp.MustCompile(`^[A-Za-z0-9_-]*$`)

// open reports whether a machine may see and use the address of a source.
func (s *sources) open(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	switch strings.TrimPrefix(u.Scheme, "mirror+") {
	case "http", "https":
	case "mirror", "file":
		if u.Scheme == "file" || u.Host != "" || u.Scheme == "mirror+file" && path.Dir(u.Path) != "/etc/apt/mirrors" {
			return false
		}
	default:
		return false // a path on the host's disk, or a method for which a machine may lack the program
	}
	for _, l := range s.locked {
		if at := u.Host + u.Path; u.Hostname() == l || isBelow(strings.TrimSuffix(at, "/"), l) || isBelow(u.Hostname()+u.Path, l) {
			return false
		}
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if len(part) >= 20 && aToken.MatchString(part) && strings.ContainsAny(part, "0123456789") {
			return false
		}
	}
	return true
}

// keep reports whether a machine sees a source: ok must be true and all
// addresses must be public. It records the decision.
func (s *sources) keep(ok bool, addresses ...string) bool {
	for _, a := range addresses {
		ok = ok && s.open(a)
	}
	if ok {
		s.addresses = append(s.addresses, addresses...)
		s.shown++
		return true
	}
	s.dropped = append(s.dropped, addresses...)
	s.hidden++
	return false
}

// mirrors returns a list of mirrors without the mirrors that a machine may not
// see.
func (s *sources) mirrors(text []byte) []byte {
	var kept bytes.Buffer
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) == 0 || strings.HasPrefix(f[0], "#") || !s.open(f[0]) {
			continue
		}
		s.addresses = append(s.addresses, f[0])
		kept.WriteString(f[0])
		for _, option := range f[1:] {
			if strings.HasPrefix(option, "priority:") || strings.HasPrefix(option, "type:") {
				kept.WriteString("\t" + option)
			}
		}
		kept.WriteByte('\n')
	}
	return kept.Bytes()
}

// sourceLine matches a line of sources.list: its type, options, address and rest.
var sourceLine = regexp.MustCompile(`^\s*(deb|deb-src)\s+(?:\[([^]]*)\]\s+)?(\S+)\s+([^#]+)`)

// lines takes a file in the one-line format, and returns the sources that a
// machine may use, without comments.
func (s *sources) lines(text []byte) []byte {
	var kept bytes.Buffer
	for line := range bytes.Lines(text) {
		m := sourceLine.FindStringSubmatch(string(line))
		if m == nil {
			continue
		}
		var options []string
		ok := true
		for _, o := range strings.Fields(m[2]) {
			name, value, _ := strings.Cut(o, "=")
			name = strings.TrimRight(name, "+-")
			if sourceFields[name] {
				options = append(options, o)
			}
			ok = ok && (name != "signed-by" || isShown(value))
		}
		if !s.keep(ok, m[3]) {
			continue
		}
		kept.WriteString(m[1] + " ")
		if len(options) > 0 {
			kept.WriteString("[" + strings.Join(options, " ") + "] ")
		}
		kept.WriteString(m[3] + " " + strings.TrimSpace(m[4]) + "\n")
	}
	return kept.Bytes()
}

// sourceFields lists the options of a source that define how apt fetches and
// verifies it.
var sourceFields = map[string]bool{
	"types": true, "uris": true, "suites": true, "components": true, "enabled": true, "signed-by": true, "trusted": true,
	"architectures": true, "arch": true, "languages": true, "lang": true, "targets": true, "target": true, "pdiffs": true, "by-hash": true,
	"allow-insecure": true, "allow-weak": true, "allow-downgrade-to-insecure": true, "inrelease-path": true,
	"check-valid-until": true, "valid-until-min": true, "valid-until-max": true, "check-date": true, "date-max-future": true,
}

// isShown reports whether machines have the public key of a source. A value
// that is not a path is a fingerprint or the key itself.
func isShown(key string) bool {
	if !strings.HasPrefix(key, "/") {
		return isPublicKey([]byte(key))
	}
	key = path.Clean(key)
	return isBelow(key, "/usr/share/keyrings") || isBelow(key, "/etc/apt/keyrings") || isBelow(key, "/etc/apt/trusted.gpg.d")
}

// isPublicKey reports whether text may consist of public keys. Secret keys
// begin with a packet of type 5 or 7.
func isPublicKey(text []byte) bool {
	if len(text) == 0 || bytes.Contains(text, []byte("PRIVATE KEY")) {
		return false
	}
	kind := text[0] >> 2 & 15 // the old format of packets
	if text[0]&0x40 != 0 {
		kind = text[0] & 63
	}
	return text[0]&0x80 == 0 || kind != 5 && kind != 7
}

// stanzas takes a file in the deb822 format, and returns the sources that a
// machine may use, without comments and unknown fields.
func (s *sources) stanzas(text []byte) []byte {
	var kept []byte
	for _, stanza := range stanzasOf(text) {
		ok := true
		var addresses []string
		for _, f := range stanza {
			switch f.name {
			case "uris":
				addresses = append(addresses, strings.Fields(f.value())...)
			case "signed-by":
				ok = ok && isShown(strings.TrimSpace(f.value()))
			}
		}
		if !s.keep(ok, addresses...) {
			continue
		}
		if len(kept) > 0 {
			kept = append(kept, '\n')
		}
		for _, f := range stanza {
			if name := strings.TrimRight(f.name, "+-"); sourceFields[name] || sourceFields[strings.TrimSuffix(strings.TrimSuffix(name, "-add"), "-remove")] {
				kept = append(kept, f.text...)
			}
		}
	}
	return kept
}

// A field is a field of a stanza in the format of Debian's control files.
type field struct {
	name string // lower case
	text string // all lines of the field, including its name
}

func (f field) value() string {
	_, v, _ := strings.Cut(f.text, ":")
	return v
}

// stanzasOf splits a file in the format of Debian's control files. It leaves out
// comments.
func stanzasOf(text []byte) (all [][]field) {
	var now []field
	for line := range bytes.Lines(append(slices.Clone(text), "\n\n"...)) {
		l := string(line)
		switch name, _, ok := strings.Cut(l, ":"); {
		case strings.HasPrefix(l, "#"):
		case strings.TrimSpace(l) == "":
			if len(now) > 0 {
				all = append(all, now)
			}
			now = nil
		case l[0] == ' ' || l[0] == '\t':
			if len(now) > 0 {
				now[len(now)-1].text += strings.TrimRight(l, "\n") + "\n"
			}
		case ok:
			now = append(now, field{strings.ToLower(strings.TrimSpace(name)), strings.TrimRight(l, "\n") + "\n"})
		}
	}
	return all
}

// fieldsOf takes a file in the format of Debian's control files, and returns it
// with only the named fields.
func fieldsOf(text []byte, names ...string) []byte {
	var kept []byte
	for _, stanza := range stanzasOf(text) {
		if len(kept) > 0 {
			kept = append(kept, '\n')
		}
		for _, f := range stanza {
			if slices.Contains(names, f.name) {
				kept = append(kept, f.text...)
			}
		}
	}
	return kept
}

// settings returns apt's settings in a machine. dump is what apt-config dump prints
// on the host.
func (s *sources) settings(dump string) []byte {
	out := lines(
		"// Nobody is there to be asked. A file that is missing in /etc is one that this",
		"// machine never had.",
		`DPkg::Options { "--force-confmiss"; "--force-confdef"; "--force-confold"; };`,
	)
	for line := range strings.Lines(dump) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		value = strings.Trim(value, `";`)
		if !ok || !aptSettings[name] || value == "" || strings.ContainsAny(value, "\"\n") ||
			strings.HasSuffix(name, "::Proxy") && value != "DIRECT" && !s.reaches(value) {
			continue
		}
		out = append(out, name+` "`+value+"\";\n"...)
	}
	return out
}

// reaches reports whether a machine can use a proxy: it must have no password
// and must not run on the host itself.
func (s *sources) reaches(proxy string) bool {
	u, err := url.Parse(proxy)
	if err != nil || u.Hostname() == "localhost" || !s.open(proxy) {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err != nil || !ip.IsLoopback()
}

// listed reports whether a package list belongs to a source that machines see. apt
// names a list after its source's address.
func (s *sources) listed(name string) bool {
	longest := func(all []string) (n int) {
		for _, address := range all {
			u, err := url.Parse(address)
			if err != nil {
				continue
			}
			p := strings.TrimSuffix(u.Host+u.Path, "/")
			p = strings.NewReplacer("_", "%5f", "/", "_", ":", "%3a").Replace(p)
			if strings.HasPrefix(name, p+"_") {
				n = max(n, len(p))
			}
		}
		return n
	}
	kept := longest(s.addresses)
	return kept > 0 && kept > longest(s.dropped)
}
