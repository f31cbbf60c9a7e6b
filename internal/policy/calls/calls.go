// Package calls is the table of what a process may ask of the host's kernel:
// one for the processes of a machine, of the sandbox around a command in it,
// and of its egress gateway. Their seccomp filters are made from it. All of
// them allow the processor's native system calls only: another ABI would offer
// the same kernel under numbers that the rules do not name.
package calls

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Process is a set of kinds of process.
type Process uint8

// The kinds.
const (
	Machine Process = 1 << iota // whatever runs in a machine of an OCI runtime, root too
	Sandbox                     // a command in the sandbox, beside the machine's own rules
	Egress                      // the process that forwards a machine's packets
	all     = Machine | Sandbox | Egress
)

// Socket is a kind of socket that may be opened; all others are refused.
type Socket struct {
	Family    int
	Types     []int // nil is any
	Protocols []int // nil is any
	For       Process
}

// Sockets are the kinds that may be opened. Families that a machine has no use
// for are missing, above all vsock, which reaches the hypervisor, and those that
// load a module of the kernel. So are netlink's packet filter and generic
// netlink, and TCP over several paths.
var Sockets = []Socket{
	{Family: unix.AF_UNIX, For: all},
	{Family: unix.AF_INET, Types: stream, Protocols: []int{0, unix.IPPROTO_TCP}, For: all},
	{Family: unix.AF_INET, Types: dgram, Protocols: []int{0, unix.IPPROTO_UDP, unix.IPPROTO_ICMP}, For: all},
	{Family: unix.AF_INET6, Types: stream, Protocols: []int{0, unix.IPPROTO_TCP}, For: all},
	{Family: unix.AF_INET6, Types: dgram, Protocols: []int{0, unix.IPPROTO_UDP, unix.IPPROTO_ICMPV6}, For: all},
	// What resolvers ask for: the addresses of this host.
	{Family: unix.AF_NETLINK, Protocols: []int{unix.NETLINK_ROUTE}, For: all},
	// ss lists sockets, sudo and PAM write to the audit log, and libudev listens for devices.
	{Family: unix.AF_NETLINK, Protocols: []int{unix.NETLINK_SOCK_DIAG, unix.NETLINK_AUDIT, unix.NETLINK_KOBJECT_UEVENT}, For: Machine},
	// ping, traceroute and tcpdump; they need CAP_NET_RAW.
	{Family: unix.AF_INET, Types: raw, For: Machine},
	{Family: unix.AF_INET6, Types: raw, For: Machine},
	{Family: unix.AF_PACKET, For: Machine},
}

var (
	stream = []int{unix.SOCK_STREAM}
	dgram  = []int{unix.SOCK_DGRAM}
	raw    = []int{unix.SOCK_RAW}
)

// TypeMask is the part of a socket's type that is not flags.
const TypeMask = 0xf

// Namespaces are the flags of all new namespaces.
const Namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// MachineNamespaces are those that a machine may make, within a user namespace
// that it makes in the same call: the sandbox and browsers stand on them. A
// namespace of cgroups is not among them, since whoever owns one may mount the
// cgroup file systems, where the machine's own limits are files.
const MachineNamespaces = Namespaces &^ unix.CLONE_NEWCGROUP

// Call is a system call that some kinds of process may not make.
type Call struct {
	Name string
	For  Process // to which it is refused
}

// Refused are the calls that are refused whatever their arguments. A machine's
// filter allows a list, Docker's, from which these are taken; the others refuse
// what is listed here.
var Refused = refuse(map[Process][]string{
	all: {
		// Ways past a filter, and doors to the kernel that no program of a project needs.
		"io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key",
		"fanotify_init", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff",
		"acct", "quotactl", "quotactl_fd", "syslog", "vhangup", "settimeofday", "clock_settime", "clock_adjtime",
		"sethostname", "setdomainname", "nfsservctl", "lookup_dcookie", "kcmp",
		// Namespaces are made by clone alone, whose flags a filter sees, and entered by nobody.
		"setns", "open_by_handle_at", "pivot_root", "open_tree_attr", "fspick",
	},
	// The machine's sandbox mounts, within a user namespace; the mounts of the others stay as they are.
	Sandbox | Egress: {
		"mount", "umount2", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "mount_setattr", "name_to_handle_at", "adjtimex",
	},
	Machine: {"unshare"},
	// A gateway reads hostile packets, and becomes nothing else.
	Egress: {"execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "unshare", "personality"},
})

func refuse(table map[Process][]string) (out []Call) {
	for p, names := range table {
		for _, n := range names {
			out = append(out, Call{n, p})
		}
	}
	return out
}

// RefusedTo returns the names of the calls that are refused to a kind of
// process, in the order of the alphabet.
func RefusedTo(p Process) (names []string) {
	for _, c := range Refused {
		if c.For&p != 0 {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

// SocketsOf returns the kinds of socket that a kind of process may open.
func SocketsOf(p Process) (out []Socket) {
	for _, s := range Sockets {
		if s.For&p != 0 {
			out = append(out, s)
		}
	}
	return out
}
