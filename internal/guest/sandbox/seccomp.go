package sandbox

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Filter says which calls pass beside those that never do.
type Filter struct {
	Inet   bool // IPv4 and IPv6 sockets: the namespace or the policy makes them safe
	Unix   bool // unix sockets: those that lead out are masked
	Xattr  bool // attributes of files: read-only mounts keep them
	Ptrace bool // Landlock or a user namespace keeps it to the sandbox's own processes
}

// programs are the filters' code, all of which count.
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
