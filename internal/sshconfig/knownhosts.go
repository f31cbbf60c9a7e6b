package sshconfig

import (
	"slices"
	"strings"
)

// bootMark is the prefix of a comment line of known_hosts that names the machine's boot
// to which a host's keys belong.
const bootMark = "# aloft "

// Forget returns Aloft's known_hosts prepared for a host in the given boot of
// its machine. It removes the host's keys of other boots, since a recreated
// machine has a new key. It keeps a key of this boot, so that ssh detects a
// changed key.
func Forget(known, host, life string) string {
	host, life = escape(host), escape(life)
	mark := bootMark + host + " " + life
	var kept strings.Builder
	var ours []string // lines of this host
	same := false
	for line := range strings.Lines(known) {
		line = strings.TrimRight(line, "\r\n")
		if rest, is := strings.CutPrefix(line, bootMark); is {
			if name, _, _ := strings.Cut(rest, " "); name == host {
				same = same || line == mark
				continue
			}
		} else if names(line, host) {
			ours = append(ours, line)
			continue
		}
		kept.WriteString(line + "\n")
	}
	kept.WriteString(mark + "\n")
	if same {
		for _, line := range ours {
			kept.WriteString(line + "\n")
		}
	}
	return kept.String()
}

// names reports whether a line of known_hosts is for the host.
func names(line, host string) bool {
	fields := strings.Fields(line)
	return len(fields) > 1 && !strings.HasPrefix(fields[0], "#") && slices.Contains(strings.Split(fields[0], ","), host)
}

// escape converts arbitrary text to one word, in the format of known_hosts.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ',' {
			return '_'
		}
		return r
	}, strings.ToLower(s))
	if s == "" {
		return "_"
	}
	return s
}
