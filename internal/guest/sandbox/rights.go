package sandbox

import (
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// Groups of Landlock's file access rights.
const (
	readAccess  = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	firstAccess = ll.AccessFSRefer - 1 // ABI 1: all rights below refer
	allAccess   = firstAccess | ll.AccessFSRefer | ll.AccessFSTruncate | ll.AccessFSIoctlDev
	// writeAccess excludes creating devices.
	writeAccess = allAccess &^ (ll.AccessFSMakeChar | ll.AccessFSMakeBlock | ll.AccessFSIoctlDev)
	// fileAccess are the rights that apply to files other than folders.
	fileAccess   = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
	deviceAccess = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSReadDir | ll.AccessFSTruncate | ll.AccessFSIoctlDev
)

// The first Landlock ABI that supports a feature.
const (
	filesABI = 3 // earlier ABIs allow truncating a read-only file
	ioctlABI = 5
	scopeABI = 6
)

// names are the names of Landlock's file access rights, starting with the
// lowest bit.
var names = []string{
	"execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file", "make_char", "make_dir",
	"make_reg", "make_sock", "make_fifo", "make_block", "make_sym", "refer", "truncate", "ioctl_dev",
}

func rights(set uint64) string {
	switch set {
	case allAccess:
		return "all"
	case readAccess:
		return "read"
	case writeAccess:
		return "write"
	}
	var on []string
	for bit, name := range names {
		if set&(1<<bit) != 0 {
			on = append(on, name)
		}
	}
	return strings.Join(on, " ")
}

func scopes(set uint64) string {
	var on []string
	if set&ll.ScopeSignal != 0 {
		on = append(on, "signals")
	}
	if set&ll.ScopeAbstractUnixSocket != 0 {
		on = append(on, "abstract sockets")
	}
	return strings.Join(on, " ")
}
