// Package calls is the table of system calls and sockets that processes may use: in a
// machine, in the sandbox around a command, in the egress process, and in confined
// programs of the server. Their seccomp filters are generated from the table. All
// filters allow only the processor's native system calls, since another ABI would offer
// the same calls under other numbers.
package calls

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Process is a set of kinds of process.
type Process uint8

// The kinds of process.
const (
	Machine  Process = 1 << iota // any process in a machine of an OCI runtime, including root
	Sandbox                      // a command in the sandbox; the machine's rules also apply
	Egress                       // the process that forwards a machine's packets
	Docker                       // any process in a machine that may run Docker
	Confined                     // a program of the server that reads hostile data, such as git
	all      = Machine | Sandbox | Egress | Docker | Confined
)

// Socket is an allowed kind of socket; all others are refused.
type Socket struct {
	Family    int
	Types     []int // nil means any
	Protocols []int // nil means any
	For       Process
}

// Sockets are the allowed kinds. Families that machines do not need are missing, above
// all vsock, which reaches the hypervisor, and families that load a kernel module.
// Generic netlink and multipath TCP are also missing and, except for Docker, netlink's
// packet filter.
var Sockets = []Socket{
	{Family: unix.AF_UNIX, For: all},
	{Family: unix.AF_INET, Types: stream, Protocols: []int{0, unix.IPPROTO_TCP}, For: all},
	{Family: unix.AF_INET, Types: dgram, Protocols: []int{0, unix.IPPROTO_UDP, unix.IPPROTO_ICMP}, For: all},
	{Family: unix.AF_INET6, Types: stream, Protocols: []int{0, unix.IPPROTO_TCP}, For: all},
	{Family: unix.AF_INET6, Types: dgram, Protocols: []int{0, unix.IPPROTO_UDP, unix.IPPROTO_ICMPV6}, For: all},
	// Resolvers use netlink to query this host's addresses.
	{Family: unix.AF_NETLINK, Protocols: []int{unix.NETLINK_ROUTE}, For: all},
	// Used by ss to list sockets, by sudo and PAM to write to the audit log, and
	// by libudev to listen for devices.
	{Family: unix.AF_NETLINK, Protocols: []int{unix.NETLINK_SOCK_DIAG, unix.NETLINK_AUDIT, unix.NETLINK_KOBJECT_UEVENT}, For: Machine | Docker},
	// Used by ping, traceroute and tcpdump, which need CAP_NET_RAW.
	{Family: unix.AF_INET, Types: raw, For: Machine | Docker},
	{Family: unix.AF_INET6, Types: raw, For: Machine | Docker},
	{Family: unix.AF_PACKET, For: Machine | Docker},
	// Docker publishes ports with iptables, which configures the packet filter.
	{Family: unix.AF_NETLINK, Protocols: []int{unix.NETLINK_NETFILTER}, For: Docker},
}

// An Option is a set of socket options: those of a level whose number is Value in
// the bits of Mask.
type Option struct {
	Level       int
	Mask, Value uint32
}

// Options are the socket options that a process in a machine without Docker may read
// and set. Missing are those of the packet filter, which raw sockets configure without
// netlink: the numbers from 64 on of IPv4, and 64, 65, 68 and 69 of IPv6. A process
// has the rights for them in a user namespace that it has created.
var Options = []Option{
	{Level: unix.SOL_SOCKET}, {Level: unix.SOL_TCP}, {Level: unix.SOL_UDP}, {Level: unix.SOL_ICMPV6}, {Level: unix.SOL_RAW},
	{Level: unix.SOL_PACKET}, {Level: unix.SOL_NETLINK}, {Level: unix.SOL_TLS},
	{Level: unix.SOL_IP, Mask: ^uint32(63)},
	{Level: unix.SOL_IPV6, Mask: ^uint32(63)},
	{Level: unix.SOL_IPV6, Mask: ^uint32(1), Value: 66}, // IPV6_RECVTCLASS, IPV6_TCLASS
	{Level: unix.SOL_IPV6, Mask: ^uint32(1), Value: 70}, // IPV6_AUTOFLOWLABEL
	{Level: unix.SOL_IPV6, Mask: ^uint32(7), Value: 72}, // IPV6_ADDR_PREFERENCES to IPV6_FREEBIND
}

var (
	stream = []int{unix.SOCK_STREAM}
	dgram  = []int{unix.SOCK_DGRAM}
	raw    = []int{unix.SOCK_RAW}
)

// TypeMask selects a socket's type without its flags.
const TypeMask = 0xf

// Namespaces are the flags of all new namespaces.
const Namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// MachineNamespaces are the namespaces that a machine may create. For all but the user
// namespace the kernel requires CAP_SYS_ADMIN. A process in a machine has that
// capability only in a user namespace that it has created, as the sandbox and browsers
// do. A cgroup namespace is excluded: its owner may mount the cgroup file systems, which
// contain the machine's own limits.
const MachineNamespaces = Namespaces &^ unix.CLONE_NEWCGROUP

// Call is a system call that some kinds of process must not make.
type Call struct {
	Name string
	For  Process // the kinds of process that must not make the call
}

// Refused are the calls that are refused regardless of their arguments. A
// machine's filter is Docker's allow list minus these calls. The other filters
// are deny lists with these calls.
var Refused = refuse(map[Process][]string{
	all: {
		// These calls bypass a filter, or use kernel interfaces that no project needs.
		"io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key",
		"fanotify_init", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff",
		"acct", "quotactl", "quotactl_fd", "syslog", "vhangup", "settimeofday", "clock_settime", "clock_adjtime",
		"setdomainname", "nfsservctl", "lookup_dcookie", "kcmp", "open_by_handle_at", "open_tree_attr", "fspick",
	},
	// Namespaces may be created, by clone and unshare, whose flags a filter can check, but
	// not entered. Docker may enter namespaces, because it enters those of its containers.
	Machine | Sandbox | Egress | Confined: {"setns", "pivot_root", "sethostname"},
	// The machine's sandbox mounts file systems in a user namespace; the other kinds must
	// keep their mounts.
	Sandbox | Egress | Confined: {
		"mount", "umount2", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "mount_setattr", "name_to_handle_at", "adjtimex",
	},
	// The egress process reads hostile packets, and never starts other programs.
	Egress: {"execve", "execveat", "ptrace"},
	// All processes of a user share System V objects, which outlive the processes.
	Confined:          {"shmget", "msgget", "semget"},
	Egress | Confined: {"process_vm_readv", "process_vm_writev", "pidfd_getfd", "unshare", "personality"},
})

func refuse(table map[Process][]string) (out []Call) {
	for p, names := range table {
		for _, n := range names {
			out = append(out, Call{n, p})
		}
	}
	return out
}

// RefusedTo returns the sorted names of the calls refused to a kind of process.
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
