package sshconfig

import (
	"slices"
	"strings"
)

// bootMark begins a line of known_hosts that says which life of a machine the
// keys of a host belong to; for ssh it is a comment.
const bootMark = "# aloft "

// Forget returns our known_hosts made ready for a host in the given life of its
// machine: keys of another life are taken out, since a machine that was made
// anew has a new one. A key of this life stays, so that a changed one is found.
func Forget(known, host, life string) string {
	host, life = word(host), word(life)
	mark := bootMark + host + " " + life
	var kept strings.Builder
	var ours []string // lines of this host's
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

// names reports whether a line of known_hosts is of the host.
func names(line, host string) bool {
	fields := strings.Fields(line)
	return len(fields) > 1 && !strings.HasPrefix(fields[0], "#") && slices.Contains(strings.Split(fields[0], ","), host)
}

// word makes one word of what may be anything, as ssh writes hosts.
func word(s string) string {
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
