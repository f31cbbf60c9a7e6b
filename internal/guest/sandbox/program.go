package sandbox

import (
	"strconv"
	"strings"
	"unsafe"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// ProxyPort is the proxy's port on loopback in the sandbox's network namespace. Nothing
// else listens in that namespace.
const ProxyPort = 3128

// Descriptors with fixed numbers, higher than those that programs use.
const (
	listenerFD = 1000 // the proxy's listener, shared with the parent
	fromFD     = 1001 // source of a mount(2), which takes paths
	toFD       = 1002 // target of a mount(2)
)

// noLinks opens exactly the path in the plan: it fails if an element has been replaced
// by a link.
var noLinks = unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}

// compile returns the system calls that apply the layout and then execute the
// command in dir. If lenient is set, sockets that have disappeared since the
// plan are skipped.
func (l Layout) compile(k Kernel, lenient bool, dir, file string, argv, env []string) *program {
	p := &program{calls: make([]call, 0, 128+16*len(l.Mounts)+3*len(l.Paths))}
	// The child reports its mount namespace. If the parent looked it up later,
	// the child could have exited already while processes that it started are
	// still running.
	p.add("name the mount namespace", unix.SYS_READLINKAT, atCWD, "/proc/self/ns/mnt", p.namespace[:], len(p.namespace)).ignore(unix.ENOENT, unix.EACCES)
	if l.User {
		p.writeFile("/proc/self/setgroups", "deny")
		p.writeFile("/proc/self/gid_map", strconv.Itoa(k.GID)+" "+strconv.Itoa(k.GID)+" 1")
		p.writeFile("/proc/self/uid_map", strconv.Itoa(k.UID)+" "+strconv.Itoa(k.UID)+" 1")
	}
	if l.Network {
		p.loopback(l.Proxy)
	}
	if l.Mount {
		p.add("make mounts private", unix.SYS_MOUNT, "", "/", 0, unix.MS_REC|unix.MS_PRIVATE, 0)
		if l.OldMounts {
			l.mountOld(p, k.Mounted, lenient)
		} else {
			l.mount(p, lenient)
		}
	}
	// Change to the directory again by name: the mounts now hide the parent's working
	// directory.
	p.add("change to "+dir, unix.SYS_CHDIR, dir)
	p.add("bound core dumps", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, unsafe.Pointer(&unix.Rlimit{}), 0)
	ruleset := l.ruleset(p)
	dropPrivileges(p)
	if ruleset != 0 {
		p.add("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0)
	}
	p.add("close descriptors", unix.SYS_CLOSE_RANGE, 3, uintptr(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC)
	if !l.Unconfined {
		for _, code := range l.Filter.programs() {
			prog := &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
			p.add("seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, unsafe.Pointer(prog))
		}
	}
	p.add(file, unix.SYS_EXECVE, file, p.strings(argv), p.strings(env))
	return p
}

func (p *program) strings(list []string) unsafe.Pointer {
	pointers := make([]*byte, len(list)+1)
	for i, s := range list {
		b := append([]byte(s), 0)
		pointers[i] = &b[0]
	}
	p.keep = append(p.keep, pointers)
	return unsafe.Pointer(&pointers[0])
}

func (p *program) writeFile(name, text string) {
	at := p.result(p.add("open "+name, unix.SYS_OPENAT, atCWD, name, unix.O_WRONLY|unix.O_CLOEXEC))
	p.add("write "+name, unix.SYS_WRITE, at, text, len(text))
	p.add("close "+name, unix.SYS_CLOSE, at)
}

// atCWD is AT_FDCWD.
const atCWD = ^uintptr(99)

// loopback brings up loopback in the network namespace, and opens the proxy's
// listener there.
func (p *program) loopback(proxy bool) {
	request := make([]byte, 40) // struct ifreq
	copy(request, "lo")
	*(*uint16)(unsafe.Pointer(&request[16])) = unix.IFF_UP | unix.IFF_RUNNING
	s := p.result(p.add("open a socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0))
	p.add("bring loopback up", unix.SYS_IOCTL, s, unix.SIOCSIFFLAGS, request).ignore(unix.ENOTTY) // in gVisor it is up already
	if proxy {
		at := &unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte{127, 0, 0, 1}}
		*(*[2]byte)(unsafe.Pointer(&at.Port)) = [2]byte{ProxyPort >> 8, ProxyPort & 0xff}
		p.add("bind the proxy", unix.SYS_BIND, s, unsafe.Pointer(at), unix.SizeofSockaddrInet4)
		p.add("listen for the proxy", unix.SYS_LISTEN, s, 1024)
		p.add("keep the proxy's socket", unix.SYS_DUP3, s, listenerFD, unix.O_CLOEXEC)
	}
	p.add("close a socket", unix.SYS_CLOSE, s)
}

// mount adds the calls that make the layout's mounts, parents first. If lenient is set,
// it skips fleeting mounts whose paths have disappeared.
func (l Layout) mount(p *program, lenient bool) {
	// Before making the rest read-only, open the paths whose mode must not change.
	kept := map[string]result{}
	for _, m := range l.Mounts {
		if m.Mode.stays() || m.Mode == Writable {
			at := p.open(m.Path)
			kept[m.Path] = p.clone("keep "+m.Path, at)
			p.add("close", unix.SYS_CLOSE, at)
		}
	}
	if l.Frozen {
		p.setattr("make all files read-only", atCWD, "/", unix.AT_RECURSIVE, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	var masks []string
	for _, m := range l.Mounts {
		if tree, ok := kept[m.Path]; ok {
			p.makePoint(m, masks)
			p.attach(m.Path, tree, p.open(m.Path), m)
			continue
		}
		first := len(p.calls)
		switch at := p.open(m.Path); {
		case m.Path == "/dev/pts":
			p.attach(m.Path, p.filesystem("devpts", "newinstance", "", "ptmxmode", "0666", "mode", "0600"), at, m)
		case m.Mode == Masked && m.Kind == Dir:
			masks = append(masks, m.Path)
			p.attach(m.Path, p.filesystem("tmpfs", "mode", "0755"), at, m)
		case m.Mode == Masked:
			p.attach(m.Path, p.clone("mask "+m.Path, p.open("/dev/null")), at, m)
		default:
			p.attach(m.Path, p.clone("bind "+m.Path, at), at, m)
		}
		if m.Fleeting && lenient {
			for i := first; i < len(p.calls); i++ {
				p.calls[i].past = len(p.calls)
			}
		}
	}
	for _, mask := range masks {
		p.setattr("mask "+mask, atCWD, mask, 0, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
}

// makePoint creates the mount point of a kept path inside the empty mask.
func (p *program) makePoint(m Mount, masks []string) {
	for _, mask := range masks {
		rest, in := strings.CutPrefix(m.Path, mask+"/")
		if !in {
			continue
		}
		parts := strings.Split(rest, "/")
		at := mask
		for i, part := range parts {
			at += "/" + part
			if i < len(parts)-1 || m.Kind == Dir {
				p.add("make "+at, unix.SYS_MKDIRAT, atCWD, at, 0o755).ignore(unix.EEXIST)
				continue
			}
			fd := p.result(p.add("make "+at, unix.SYS_OPENAT, atCWD, at, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644))
			p.add("close", unix.SYS_CLOSE, fd)
		}
	}
}

func (p *program) open(name string) result {
	return p.result(p.add("open "+name, unix.SYS_OPENAT2, atCWD, name, unsafe.Pointer(&noLinks), unix.SizeofOpenHow).planned())
}

// clone makes a mount from an opened file or folder, with all mounts below it.
func (p *program) clone(what string, at result) result {
	return p.result(p.add(what, unix.SYS_OPEN_TREE, at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE).planned())
}

// filesystem creates a mount of a new file system.
func (p *program) filesystem(kind string, options ...string) result {
	ctx := p.result(p.add("open "+kind, unix.SYS_FSOPEN, kind, unix.FSOPEN_CLOEXEC))
	for i := 0; i < len(options); i += 2 {
		if options[i+1] == "" {
			p.add("configure "+kind, unix.SYS_FSCONFIG, ctx, unix.FSCONFIG_SET_FLAG, options[i], 0, 0)
		} else {
			p.add("configure "+kind, unix.SYS_FSCONFIG, ctx, unix.FSCONFIG_SET_STRING, options[i], options[i+1], 0)
		}
	}
	p.add("make "+kind, unix.SYS_FSCONFIG, ctx, unix.FSCONFIG_CMD_CREATE, 0, 0, 0)
	tree := p.result(p.add("mount "+kind, unix.SYS_FSMOUNT, ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC))
	p.add("close", unix.SYS_CLOSE, ctx)
	return tree
}

func (p *program) setattr(what string, at any, name string, flags int, attr unix.MountAttr) {
	a := &attr
	p.add(what, unix.SYS_MOUNT_SETATTR, at, name, flags, unsafe.Pointer(a), unsafe.Sizeof(attr))
}

// attach attaches a mount, with the flags of its mode.
func (p *program) attach(name string, tree, at result, m Mount) {
	switch {
	case m.Mode == Fixed || m.Mode == Shown:
		p.setattr("make read-only "+name, tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	case m.Mode == Masked && m.Kind != Dir: // a device that cannot be opened
		p.setattr("mask "+name, tree, "", unix.AT_EMPTY_PATH, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_RDONLY})
	}
	p.add("mount on "+name, unix.SYS_MOVE_MOUNT, tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH).planned()
	p.add("close", unix.SYS_CLOSE, tree)
	p.add("close", unix.SYS_CLOSE, at)
}

// ruleset creates the Landlock rules. It opens paths after everything is
// mounted.
func (l Layout) ruleset(p *program) result {
	if l.Files|l.Scope == 0 {
		return 0
	}
	attr := &ll.RulesetAttr{HandledAccessFS: l.Files, Scoped: l.Scope}
	size := unsafe.Sizeof(*attr)
	if l.Scope == 0 {
		size = unsafe.Offsetof(attr.HandledAccessNet) // the size that older kernels accept
	}
	ruleset := p.result(p.add("landlock", unix.SYS_LANDLOCK_CREATE_RULESET, unsafe.Pointer(attr), size, 0))
	rules := l.Paths
	if l.Mount && l.has("/dev/pts") && l.Files != 0 {
		rules = append(rules[:len(rules):len(rules)], PathRule{Path: "/dev/pts", Access: deviceAccess & l.Files})
	}
	// struct landlock_path_beneath_attr is packed: access rights, then
	// descriptor.
	type beneath [12]byte
	pack := func(access uint64, fd int32) *beneath {
		var b beneath
		*(*uint64)(unsafe.Pointer(&b[0])) = access
		*(*int32)(unsafe.Pointer(&b[8])) = fd
		return &b
	}
	for _, rule := range rules {
		if rule.Path == "" {
			p.add("landlock: a descriptor", unix.SYS_LANDLOCK_ADD_RULE, ruleset, ll.RuleTypePathBeneath, unsafe.Pointer(pack(rule.Access, int32(rule.FD))), 0).ignore(unix.EBADFD, unix.EBADF)
			continue
		}
		to := pack(rule.Access, -1)
		open := p.add("landlock: open "+rule.Path, unix.SYS_OPENAT, atCWD, rule.Path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW).planned()
		open.put = (*int32)(unsafe.Pointer(&to[8]))
		fd := p.result(open)
		p.add("landlock: "+rule.Path, unix.SYS_LANDLOCK_ADD_RULE, ruleset, ll.RuleTypePathBeneath, unsafe.Pointer(to), 0)
		p.add("close", unix.SYS_CLOSE, fd)
	}
	return ruleset
}

func (l Layout) has(name string) bool {
	for _, m := range l.Mounts {
		if m.Path == name {
			return true
		}
	}
	return false
}

// lastCapability is higher than any kernel's. For unknown capabilities a kernel returns
// EINVAL.
const lastCapability = 63

// dropPrivileges drops all capabilities and every way to regain them.
func dropPrivileges(p *program) {
	p.add("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	p.add("ambient capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	for c := range lastCapability + 1 {
		// A process without CAP_SETPCAP gets EPERM. Such a process has no capabilities anyway,
		// and no_new_privs prevents gaining any.
		p.add("bounding capabilities", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0).ignore(unix.EINVAL, unix.EPERM)
	}
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	p.add("capabilities", unix.SYS_CAPSET, unsafe.Pointer(header), unsafe.Pointer(&none[0]))
}
