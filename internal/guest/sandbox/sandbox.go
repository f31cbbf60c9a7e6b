// Package sandbox puts a policy (internal/policy/sandbox) around one command: what
// it may read and write (Landlock, and mounts for the holes that Landlock cannot
// make), what it may reach (a network namespace, and a proxy at its edge), and
// which system calls it may make (seccomp); capabilities it has none.
//
// [Plan] decides and is pure: the same policy, kernel and tree give the same
// plan, which can be read as text. A plan is turned into a list of system calls
// that a child makes between its birth and its exec ([Run]): a process that has
// become the command needs no second start of ours, and the parent, which is not
// in the sandbox, serves the proxy and clears up.
//
// It never enforces less than the policy asks without being told to: what the
// kernel lacks is an [UnenforceableError].
//
// Not covered: time, memory and processes, which are the machine's to bound;
// names and metadata of files; sockets that somebody outside makes, after the
// command began, in a folder that is not known to hold sockets; what others do
// to the files meanwhile.
package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	sandboxpolicy "aloft/internal/policy/sandbox"
)

// Kernel is what this host can enforce.
type Kernel struct {
	Landlock   int  // its ABI; 0 is none
	Namespaces bool // mount, network and IPC namespaces can be made
	Privileged bool // they need no user namespace: the process has CAP_SYS_ADMIN
	UID, GID   int
	// OldMounts says that there is no mount_setattr (Linux 5.12; gVisor has none):
	// mount(2) does it, which changes each of Mounted by itself.
	OldMounts bool
	Mounted   []Mounted
	Why       string // what there is instead of namespaces: the error of who tried
}

// owner reports whether namespaces are made in a user namespace: without
// privilege, or where Landlock does not keep root from the memory and folders of
// its other processes.
func (k Kernel) owner() bool { return k.Namespaces && (!k.Privileged || k.Landlock == 0) }

// Mounted is a mount of this host, with its MS_ flags.
type Mounted struct {
	Path  string
	Flags uintptr
}

// Kind is what a path is.
type Kind int

// The kinds.
const (
	None Kind = iota
	File
	Dir
	Link
	Other // device, pipe, socket
)

// Tree is what Plan knows of the files.
type Tree interface {
	Kind(path string) Kind      // of the path itself: a link is not followed
	Names(dir string) []string  // in a folder, sorted
	Resolve(path string) string // the path without links; "" if there is none
	Stands(path string) bool    // it is a placeholder of a sandbox that runs, or was killed
	// Folds reports whether names in a folder are taken in any case by a file system
	// that does not tell the kernel: a mount on one spelling is not on the others.
	Folds(dir string) bool
}

// Spec is one sandbox that is wanted.
type Spec struct {
	Rules sandboxpolicy.Rules
	// Masked are paths, beside those that the rules hide, that are emptied: folders
	// and files of sockets that lead out. What is not there when they are mounted
	// is passed over.
	Masked []string
	// Kept are files in what is masked that stay to be read, such as the resolver's.
	Kept []string
	// BestEffort goes on where the kernel cannot enforce all of it.
	BestEffort bool
	// Streams are the files behind descriptors 0, 1 and 2 that can be opened by
	// name, with what the descriptor lets do.
	Streams []Stream
}

// Stream is a descriptor that the command inherits.
type Stream struct {
	FD          int
	Read, Write bool
}

// Mode is what a mount does to a path.
type Mode int

// The modes, each beating those before it.
const (
	Anchor   Mode = iota // nothing changes, but it cannot be moved or removed
	Writable             // may be changed, in what may not
	Fixed                // may not be changed
	Masked               // is empty
	Kept                 // stays as it is in what is masked
	Shown                // stays to be read in what is masked
)

var modeNames = []string{"anchor", "writable", "fixed", "masked", "kept", "shown"}

// Mount is one mount of the sandbox's own.
type Mount struct {
	Path string
	Mode Mode
	Kind Kind
	// Fleeting is somebody's socket, which may go at any time: there is nothing to
	// mask then.
	Fleeting bool
}

// Placeholder is a file or folder to be made, so that what is not there can be
// protected. It is removed when the command and all it started have ended.
type Placeholder struct {
	Path string
	Kind Kind
}

// PathRule gives Landlock's rights below a path.
type PathRule struct {
	Path   string
	FD     int // a descriptor instead of a path, if Path is ""
	Access uint64
}

// Layout is a plan: all that is done to hold a policy.
type Layout struct {
	Unconfined   bool // insecure_none: nothing is done
	User         bool // namespaces
	Mount        bool
	Network      bool
	IPC          bool
	OldMounts    bool // by mount(2), where the kernel knows no other
	Frozen       bool // all files but those of the mounts are mounted to be read only
	Placeholders []Placeholder
	Mounts       []Mount
	Late         []string // patterns of names that are set aside when they appear
	Files        uint64   // Landlock's rights that are taken but where Paths gives them
	Scope        uint64
	Paths        []PathRule
	Filter       Filter
	Proxy        bool
	Missing      []string // what was asked for and is not enforced
}

// Status is how much of the policy is held, in the words of
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

// UnenforceableError says what of a policy this host cannot hold.
type UnenforceableError struct{ Missing []string }

func (e *UnenforceableError) Error() string {
	return "this host cannot enforce the policy: " + strings.Join(e.Missing, "; ")
}

// errNotAbsolute is a mistake of the caller's.
var errNotAbsolute = errors.New("is not absolute")

// errRoot is a policy that opens everything, with holes: that is no sandbox.
var errRoot = errors.New("it is the root folder: name the folders in it that may be changed, or say type insecure_none")

// Plan says how the policy is held on this kernel. It fails with an
// [UnenforceableError] where it is not, unless the spec says best effort.
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
	p.spec.Rules.Writable = spec.Rules.Changeable(p.real)
	for _, g := range p.spec.Rules.Writable {
		if p.real(g.Path) == "/" {
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

// String writes a plan out, a line for each thing that is done.
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
