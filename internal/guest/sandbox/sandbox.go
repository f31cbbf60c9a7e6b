// Package sandbox applies a policy (internal/policy/sandbox) to one command. It
// restricts which files the command may read and write (Landlock, plus mounts for
// exceptions that Landlock cannot express), which hosts it may reach (a network
// namespace, with a proxy as the only exit), and which system calls it may make
// (seccomp). The command has no capabilities.
//
// [Plan] makes the decisions and is a pure function: the same policy, kernel and
// tree give the same plan, which can be printed as text. [Run] turns a plan into a
// list of system calls that a child makes between its creation and its exec. So no
// second program is needed inside the sandbox, and the parent, which is outside,
// serves the proxy and cleans up. The child is created by a vfork in assembly
// (fork.go): a second start of this program in the namespaces, which
// [syscall.SysProcAttr] would need, takes 1.8 ms longer (medians of 200 each).
//
// It never silently enforces less than the policy asks for: if the kernel lacks a
// feature, it returns an [UnenforceableError].
//
// Not covered: limits on time, memory and processes, which the machine sets; names
// and metadata of files; sockets that a process outside creates after the command
// has started, in a folder that is not known to have sockets; and changes that
// other processes make to the files meanwhile.
package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	sandboxpolicy "aloft/internal/policy/sandbox"
)

// Kernel describes the features of this host that a sandbox uses.
type Kernel struct {
	Landlock   int  // ABI version; 0 means no Landlock
	Namespaces bool // mount, network and IPC namespaces can be created
	Privileged bool // no user namespace is needed: the process has CAP_SYS_ADMIN
	UID, GID   int
	// OldMounts says that mount_setattr is missing (it needs Linux 5.12, and gVisor lacks
	// it). Then the sandbox uses mount(2), which changes each mount in Mounted separately.
	OldMounts bool
	Mounted   []Mounted
	Why       string // why namespaces cannot be created: the error of the attempt
}

// owner reports whether to create the namespaces in a user namespace. That is necessary
// without privileges. It is also necessary without Landlock: otherwise root in the
// sandbox could reach the memory and folders of root's processes outside.
func (k Kernel) owner() bool { return k.Namespaces && (!k.Privileged || k.Landlock == 0) }

// Mounted is a mount of this host, with its MS_ flags.
type Mounted struct {
	Path  string
	Flags uintptr
}

// Kind is the type of a file.
type Kind int

// File types.
const (
	None Kind = iota
	File
	Dir
	Link
	Other // device, pipe, socket
)

// Tree is Plan's view of the file system.
type Tree interface {
	Kind(path string) Kind          // type of the path itself; links are not followed
	Names(dir string) []string      // names in a folder, sorted
	Resolve(path string) string     // the path with links resolved; "" if it does not exist
	IsPlaceholder(path string) bool // whether it is a placeholder of a running or killed sandbox
	// Folds reports whether the folder's file system ignores case although the
	// kernel treats names as case-sensitive. A mount on one spelling of a name then
	// does not cover the other spellings.
	Folds(dir string) bool
}

// Spec describes a sandbox.
type Spec struct {
	Rules sandboxpolicy.Rules
	// Masked are paths to make empty in addition to those that the rules hide: folders and
	// files of sockets that lead out of the sandbox. Paths that no longer exist at the time
	// of mounting are skipped.
	Masked []string
	// Kept are files inside masked paths that stay readable, such as the
	// resolver's configuration.
	Kept []string
	// BestEffort continues even if the kernel cannot enforce everything.
	BestEffort bool
	// Streams are the files behind descriptors 0, 1 and 2 that have a name, with the
	// descriptors' access modes.
	Streams []Stream
}

// Stream is a descriptor that the command inherits.
type Stream struct {
	FD          int
	Read, Write bool
}

// Mode is the effect of a mount on a path.
type Mode int

// The modes. If several apply to a path, the last one in this list wins.
const (
	Anchor   Mode = iota // unchanged, but cannot be renamed or removed
	Writable             // writable, inside a path that is not writable
	Fixed                // read-only
	Masked               // empty
	Kept                 // unchanged, inside a masked path
	Shown                // readable, inside a masked path
)

var modeNames = []string{"anchor", "writable", "fixed", "masked", "kept", "shown"}

// Mount is one mount that the sandbox makes.
type Mount struct {
	Path string
	Mode Mode
	Kind Kind
	// Fleeting says that the path is another program's socket. It is not an error if the
	// socket is removed before it is masked.
	Fleeting bool
}

// Placeholder is a file or folder to create so that a missing path can be protected. It
// is removed when the command and all processes that it started have ended.
type Placeholder struct {
	Path string
	Kind Kind
}

// PathRule gives Landlock access rights below a path.
type PathRule struct {
	Path   string
	FD     int // the descriptor, if Path is ""
	Access uint64
}

// Layout is a plan: all actions that enforce a policy.
type Layout struct {
	Unconfined   bool // insecure_none: nothing is done
	User         bool // namespaces to create
	Mount        bool
	Network      bool
	IPC          bool
	OldMounts    bool // use mount(2), because the kernel has nothing newer
	Frozen       bool // mount everything read-only except for Mounts
	Placeholders []Placeholder
	Mounts       []Mount
	Late         []string // patterns of names: files that appear under them are renamed
	Files        uint64   // Landlock rights that are denied except where Paths grants them
	Scope        uint64
	Paths        []PathRule
	Filter       Filter
	Proxy        bool
	Missing      []string // what was requested but is not enforced
}

// Status says how much of the policy is enforced, as a value of
// CURSOR_SANDBOX_LANDLOCK_STATUS.
func (l Layout) Status() string {
	switch {
	case l.Unconfined || l.Files == 0 && !l.Frozen:
		return "not_enforced"
	case len(l.Missing) > 0:
		return "partially_enforced"
	}
	return "fully_enforced"
}

// UnenforceableError lists the parts of a policy that this host cannot enforce.
type UnenforceableError struct{ Missing []string }

func (e *UnenforceableError) Error() string {
	return "this host cannot enforce the policy: " + strings.Join(e.Missing, "; ")
}

// errNotAbsolute is a caller's mistake.
var errNotAbsolute = errors.New("is not absolute")

// errRoot is returned for a policy that makes the whole root folder writable, with
// exceptions: that would not be a sandbox.
var errRoot = errors.New("it is the root folder: name the folders in it that may be changed, or set type to insecure_none")

// Plan returns how to enforce the policy on this kernel. If the kernel cannot
// enforce all of it, Plan returns an [UnenforceableError], unless the spec asks
// for best effort.
func Plan(spec Spec, kernel Kernel, tree Tree) (Layout, error) {
	if spec.Rules.Policy.Type == sandboxpolicy.InsecureNone {
		return Layout{Unconfined: true}, nil
	}
	for _, dir := range slices.Concat(spec.Rules.Workspaces, spec.Masked, spec.Rules.Hidden) {
		if !strings.HasPrefix(dir, "/") {
			return Layout{}, fmt.Errorf("path %q %w", dir, errNotAbsolute)
		}
	}
	p := planner{Layout: isolate(spec.Rules.Policy, kernel), spec: spec, kernel: kernel, tree: memo{tree, map[string]Kind{}, map[string]string{}}, mounts: map[string]Mount{}}
	p.spec.Rules.Writable = spec.Rules.Changeable(p.resolve)
	for _, g := range p.spec.Rules.Writable {
		if p.resolve(g.Path) == "/" {
			return Layout{}, fmt.Errorf("%s: %w", g.Rule, errRoot)
		}
	}
	p.network()
	p.files()
	if kernel.Namespaces {
		p.holes()
	} else {
		p.withoutMounts()
	}
	p.rights()
	if len(p.Missing) > 0 && !spec.BestEffort {
		return Layout{}, &UnenforceableError{Missing: p.Missing}
	}
	return p.Layout, nil
}

// String formats a plan as text, one line for each action.
func (l Layout) String() string {
	var b strings.Builder
	line := func(on bool, format string, args ...any) {
		if on {
			fmt.Fprintf(&b, format+"\n", args...)
		}
	}
	line(true, "status: %s", l.Status())
	var ns []string
	for _, n := range []struct {
		on   bool
		name string
	}{{l.User, "user"}, {l.Mount, "mount"}, {l.Network, "network"}, {l.IPC, "ipc"}} {
		if n.on {
			ns = append(ns, n.name)
		}
	}
	line(len(ns) > 0, "namespaces: %s", strings.Join(ns, " "))
	line(l.Frozen, "files: mounted read-only")
	line(l.OldMounts, "mounts: one by one, by mount(2)")
	for _, p := range l.Placeholders {
		line(true, "placeholder: %s", p.Path)
	}
	for _, m := range l.Mounts {
		line(true, "mount: %s %s", modeNames[m.Mode], m.Path)
	}
	for _, name := range l.Late {
		line(true, "set aside: %s", name)
	}
	line(l.Files != 0, "landlock: %s", rights(l.Files))
	for _, p := range l.Paths {
		name := p.Path
		if name == "" {
			name = fmt.Sprintf("descriptor %d", p.FD)
		}
		line(true, "  %s: %s", name, rights(p.Access))
	}
	line(l.Scope != 0, "landlock scope: %s", scopes(l.Scope))
	line(!l.Unconfined, "seccomp: %s", l.Filter)
	line(l.Proxy, "network: by the proxy")
	for _, m := range l.Missing {
		line(true, "missing: %s", m)
	}
	return b.String()
}
