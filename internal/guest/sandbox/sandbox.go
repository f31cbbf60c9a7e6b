// Package sandbox confines one command: the files it may touch (Landlock), the
// network (Landlock and seccomp), and privileges (none). [Plan] decides and is
// pure; [Apply] makes the system calls and is thin.
//
// It confines the thread that calls Apply and what that executes, for good. It
// does not hide files' names and metadata, does not close descriptors that are
// open already, does not cover connections to unix sockets by path, and does
// not bound time, memory or processes: the machine does.
package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// Policy is what is asked for. With a path in either list, all paths that are
// below none of them are out of reach; with no path at all, files are not
// confined.
type Policy struct {
	ReadWrite []string // absolute
	ReadOnly  []string // absolute; reading includes executing
	NoNetwork bool     // no socket but unix and netlink ones
	// BestEffort takes what the kernel cannot enforce as not asked for.
	BestEffort bool
}

// Rules are what will be enforced.
type Rules struct {
	Files   uint64 // Landlock rights that are taken away but where Paths gives them
	TCP     uint64 // Landlock rights that are taken away
	Scope   uint64 // Landlock scopes that end at the command
	Paths   []PathRule
	Sockets bool     // seccomp refuses sockets
	Missing []string // what was asked for and is not enforced
}

// PathRule gives rights below a path.
type PathRule struct {
	Path   string
	Access uint64
}

// Landlock's rights on files, as groups.
const (
	readAccess  = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	firstAccess = ll.AccessFSRefer - 1 // ABI 1: all below refer
	allAccess   = firstAccess | ll.AccessFSRefer | ll.AccessFSTruncate | ll.AccessFSIoctlDev
	// fileAccess are the rights that mean something on what is no folder.
	fileAccess = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
	tcpAccess  = ll.AccessNetBindTCP | ll.AccessNetConnectTCP
)

// The first ABI of Landlock with which a promise can be kept.
const (
	filesABI = 3 // before it a file that may only be read could be truncated
	tcpABI   = 4
	ioctlABI = 5
	scopeABI = 6
)

// Plan makes the rules that hold the policy on a kernel with the given ABI of
// Landlock; 0 is a kernel without. It is an error that the kernel cannot
// enforce what is asked for, unless the policy says best effort.
func Plan(p Policy, abi int) (Rules, error) {
	var r Rules
	for _, path := range slices.Concat(p.ReadOnly, p.ReadWrite) {
		if !filepath.IsAbs(path) {
			return Rules{}, fmt.Errorf("path %q is not absolute", path)
		}
	}
	if len(p.ReadOnly)+len(p.ReadWrite) > 0 {
		r.planFiles(p, abi)
	}
	if p.NoNetwork {
		r.Sockets = true
		if abi >= tcpABI {
			r.TCP = tcpAccess
		} else {
			r.Missing = append(r.Missing, fmt.Sprintf("no-network: Landlock ABI %d (Linux 6.7) for TCP; sockets are refused by seccomp alone", tcpABI))
		}
		if abi >= scopeABI {
			r.Scope = ll.ScopeAbstractUnixSocket
		}
	}
	if len(r.Missing) > 0 && !p.BestEffort {
		return Rules{}, fmt.Errorf("the kernel's Landlock ABI is %d and cannot enforce %s", abi, strings.Join(r.Missing, "; "))
	}
	return r, nil
}

func (r *Rules) planFiles(p Policy, abi int) {
	if abi < filesABI {
		r.Missing = append(r.Missing, fmt.Sprintf("files: Landlock ABI %d (Linux 6.2)", filesABI))
	}
	switch {
	case abi < 1:
		return
	case abi < 2:
		r.Files = firstAccess
	case abi < filesABI:
		r.Files = firstAccess | ll.AccessFSRefer
	case abi < ioctlABI:
		r.Files = allAccess &^ ll.AccessFSIoctlDev
	default:
		r.Files = allAccess
	}
	for _, path := range p.ReadOnly {
		r.Paths = append(r.Paths, PathRule{filepath.Clean(path), readAccess & r.Files})
	}
	for _, path := range p.ReadWrite {
		r.Paths = append(r.Paths, PathRule{filepath.Clean(path), r.Files})
	}
}

// names of Landlock's rights on files, from the lowest bit.
var names = []string{
	"execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file", "make_char", "make_dir",
	"make_reg", "make_sock", "make_fifo", "make_block", "make_sym", "refer", "truncate", "ioctl_dev",
}

// String writes the rules out, a line each.
func (r Rules) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "files: %s\n", rights(r.Files))
	for _, p := range r.Paths {
		fmt.Fprintf(&b, "  %s: %s\n", p.Path, rights(p.Access))
	}
	for _, on := range []struct {
		what string
		is   bool
	}{
		{"tcp: no bind, no connect", r.TCP == tcpAccess},
		{"abstract unix sockets: of the sandbox only", r.Scope&ll.ScopeAbstractUnixSocket != 0},
		{"sockets: unix and netlink only", r.Sockets},
	} {
		if on.is {
			fmt.Fprintln(&b, on.what)
		}
	}
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "missing: %s\n", m)
	}
	return b.String()
}

func rights(set uint64) string {
	switch set {
	case 0:
		return "free"
	case allAccess:
		return "all"
	}
	var on []string
	for bit, name := range names {
		if set&(1<<bit) != 0 {
			on = append(on, name)
		}
	}
	return strings.Join(on, " ")
}
