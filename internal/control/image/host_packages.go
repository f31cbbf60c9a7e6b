package image

import (
	"bufio"
	"bytes"
	"crypto/md5" //nolint:gosec // the package database has no other digest of configuration files
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// packageState lists the package database and the state of package scripts:
// names and digests of the packages' own files. It excludes debconf answers,
// which may be passwords, and data of services.
var packageState = []string{
	"var/lib/dpkg/alternatives", "var/lib/dpkg/arch", "var/lib/dpkg/available", "var/lib/dpkg/diversions",
	"var/lib/dpkg/info", "var/lib/dpkg/status", "var/lib/dpkg/triggers", "var/lib/dpkg/updates",
	"var/lib/apt/extended_states",
	"etc/sgml", "etc/xml", "var/lib/sgml-base", "var/lib/xml-core",
}

// policyRC keeps package scripts from starting services: a machine has no init
// system, so a start would fail or block the installation. "service NAME start"
// ignores this file.
var policyRC = lines(
	"#!/bin/sh",
	"# Installing a package starts no services: start them with `service NAME start`.",
	"exit 101",
)

// addPackages adds the database of the installed packages, so that more can be
// installed, and their files in /etc.
func (h host) addPackages(t *tree) error {
	status, err := h.root.ReadFile("var/lib/dpkg/status")
	if err != nil {
		return nil //nolint:nilerr // the host has no dpkg
	}
	for _, name := range packageState {
		if err := t.copyAllLater(h.root, name); err != nil {
			return fmt.Errorf("copy /%s: %w", name, err)
		}
	}
	h.addOverrides(t)
	h.addDirs(t)
	h.addConffiles(t, status)
	if t.like(h.root, "usr/sbin") {
		t.file("usr/sbin/policy-rc.d", 0o755, 0, policyRC)
	}
	return nil
}

// addOverrides adds the owners and modes that the host's administrator has set for
// files of packages. dpkg fails on users and groups that a machine does not have.
func (h host) addOverrides(t *tree) {
	data, err := h.root.ReadFile("var/lib/dpkg/statoverride")
	if err != nil {
		return
	}
	knows := func(file, name string) bool {
		if strings.HasPrefix(name, "#") {
			return true // a numeric id
		}
		_, ok := findID(string(t.entries[file].data), name)
		return ok
	}
	var kept bytes.Buffer
	for line := range bytes.Lines(data) {
		if f := strings.Fields(string(line)); len(f) == 4 && knows("etc/passwd", f[0]) && knows("etc/group", f[1]) {
			kept.Write(line)
		}
	}
	t.file("var/lib/dpkg/statoverride", 0o644, 0, kept.Bytes())
}

// addDirs adds the empty folders that packages have in /etc and /var, in which their
// programs and scripts expect to write.
func (h host) addDirs(t *tree) {
	const info = "var/lib/dpkg/info"
	entries, _ := fs.ReadDir(h.root.FS(), info) // a database may have no packages
	seen := map[string]bool{}
	for _, e := range entries {
		if path.Ext(e.Name()) != ".list" {
			continue
		}
		data, _ := h.root.ReadFile(path.Join(info, e.Name())) // an unreadable file names no folders
		for line := range bytes.Lines(data) {
			if !bytes.HasPrefix(line, []byte("/etc/")) && !bytes.HasPrefix(line, []byte("/var/")) {
				continue
			}
			if name := string(bytes.TrimSpace(line[1:])); !seen[name] {
				seen[name] = true
				t.like(h.root, name)
			}
		}
	}
}

// addConffiles adds configuration files that are identical to their package's
// version. Modified files are left out, because they might reveal something
// about this host.
func (h host) addConffiles(t *tree, status []byte) {
	lines := bufio.NewScanner(bytes.NewReader(status))
	lines.Buffer(nil, maxCopied)
	in := false
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, " ") {
			in = line == "Conffiles:"
			continue
		}
		f := strings.Fields(line)
		if !in || len(f) < 2 || !strings.HasPrefix(f[0], "/etc/") {
			continue
		}
		name := path.Clean(f[0][1:])
		if t.has(name) || isBelow(name, "etc/apt") || !isBelow(name, "etc") {
			continue
		}
		info, err := h.root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o004 == 0 || info.Size() > maxCopied {
			continue
		}
		data, err := h.root.ReadFile(name)
		if sum := md5.Sum(data); err == nil && hex.EncodeToString(sum[:]) == f[1] && t.like(h.root, path.Dir(name)) { //nolint:gosec // see above
			t.file(name, info.Mode().Perm(), 0, data)
		}
	}
}

// addUsers adds the host's system users and groups, which own files in /usr. It
// leaves out people's accounts and passwords.
func (h host) addUsers(t *tree) {
	users, groups := map[string]bool{"root": true, userName: true}, map[string]bool{"root": true, userName: true}
	var accounts, secrets, names strings.Builder
	each := func(file string, fields int, add func(f []string)) {
		data, _ := h.root.ReadFile(file)
		for _, text := range []string{string(data), string(t.entries[file].data)} {
			for line := range strings.Lines(text) {
				f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
				if len(f) != fields {
					continue
				}
				if id, err := strconv.Atoi(f[2]); err == nil && (id > 0 && id < userID || id == 65534) {
					add(f)
				}
			}
		}
	}
	accounts.WriteString("root:x:0:0:root:/root:/bin/bash\n")
	secrets.WriteString("root:*:19000:0:99999:7:::\n")
	each("etc/passwd", 7, func(f []string) {
		if users[f[0]] {
			return
		}
		users[f[0]] = true
		if home := path.Clean(f[5]); isBelow(home, "/home") || isBelow(home, "/root") {
			f[5] = "/nonexistent"
		}
		accounts.WriteString(strings.Join([]string{f[0], "x", f[2], f[3], f[0], f[5], f[6]}, ":") + "\n")
		secrets.WriteString(f[0] + ":*:19000:0:99999:7:::\n")
	})
	accounts.WriteString(passwdLine + "\n")
	secrets.WriteString(shadowLine + "\n")
	names.WriteString("root:x:0:\n")
	each("etc/group", 4, func(f []string) {
		if groups[f[0]] {
			return
		}
		groups[f[0]] = true
		var members []string
		for m := range strings.SplitSeq(f[3], ",") {
			if users[m] && m != "root" && m != userName {
				members = append(members, m)
			}
		}
		if f[0] == "sudo" {
			members = append(members, userName)
		}
		names.WriteString(f[0] + ":x:" + f[2] + ":" + strings.Join(members, ",") + "\n")
	})
	names.WriteString(groupLine + "\n")
	t.file("etc/passwd", 0o644, 0, []byte(accounts.String()))
	t.file("etc/group", 0o644, 0, []byte(names.String()))
	t.file("etc/shadow", 0o600, 0, []byte(secrets.String()))
}
