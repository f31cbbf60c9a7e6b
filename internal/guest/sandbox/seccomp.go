package sandbox

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Filter says which system calls are allowed in addition to those that are
// harmless for every command.
type Filter struct {
	Inet   bool // IPv4 and IPv6 sockets: the namespace or the policy restricts them
	Unix   bool // unix sockets: those that lead out of the sandbox are masked
	Xattr  bool // extended attributes: read-only mounts protect them
	Ptrace bool // Landlock or a user namespace limits it to the sandbox's own processes
}

// programs returns the code of the filters. All of them must be installed.
func (f Filter) programs() [][]unix.SockFilter {
	all := [][]unix.SockFilter{filter_always}
	if !f.Inet {
		all = append(all, filter_no_inet)
	}
	if !f.Unix {
		all = append(all, filter_no_unix)
	}
	if !f.Xattr {
		all = append(all, filter_no_xattr)
	}
	if !f.Ptrace {
		all = append(all, filter_no_ptrace)
	}
	return all
}

func (f Filter) String() string {
	words := []string{"always"}
	for _, w := range []struct {
		on   bool
		name string
	}{{!f.Inet, "no_inet"}, {!f.Unix, "no_unix"}, {!f.Xattr, "no_xattr"}, {!f.Ptrace, "no_ptrace"}} {
		if w.on {
			words = append(words, w.name)
		}
	}
	return strings.Join(words, " ")
}
