package sandbox

import (
	"bufio"
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	sandboxpolicy "aloft/internal/policy/sandbox"
)

// mounted lists the visible mounts, parents first.
func mounted() []Mounted {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []Mounted{{Path: "/"}}
	}
	return parseMounts(text)
}

var mountFlags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
}

// parseMounts parses /proc/self/mountinfo.
func parseMounts(text []byte) []Mounted {
	var all []Mounted
	for in := bufio.NewScanner(bytes.NewReader(text)); in.Scan(); {
		f := strings.Fields(in.Text())
		if len(f) < 6 {
			continue
		}
		m := Mounted{Path: unescape(f[4])}
		for word := range strings.SplitSeq(f[5], ",") {
			m.Flags |= mountFlags[word]
		}
		// A later mount covers earlier ones at and below its path.
		all = slices.DeleteFunc(all, func(old Mounted) bool { return sandboxpolicy.Below(m.Path, old.Path) })
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Mounted) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// unescape decodes the octal escapes in mountinfo, for example for spaces.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountOld adds the calls that make the layout's mounts with mount(2), which can bind
// existing files and change the flags of one mount at a time. Like the newer system
// calls, it passes paths as descriptors, so that replacing a path by a link does not
// redirect a mount.
func (l Layout) mountOld(p *program, on []Mounted, lenient bool) {
	// Bind mount each path that stays unchanged on itself, so that it has its
	// own flags.
	kept := map[string]result{}
	for _, m := range l.Mounts {
		if m.Mode == Kept || m.Mode == Writable {
			p.bind("keep "+m.Path, p.open(m.Path), p.open(m.Path))
			kept[m.Path] = p.open(m.Path)
		}
	}
	for _, m := range on {
		if l.Frozen && !l.isApart(m.Path) {
			first := len(p.calls)
			p.remount("make read-only "+m.Path, m.Path, m.Flags|unix.MS_RDONLY)
			// If this user cannot enter the mount, the command cannot either.
			p.calls[first].past = len(p.calls)
		}
	}
	for _, m := range l.Mounts {
		if m.Mode == Shown {
			kept[m.Path] = p.open(m.Path)
		}
	}
	blank := l.blankDir() + "/.masked"
	if dir := l.blankDir(); dir != "" {
		// A unix socket without a listener serves as a file that cannot be opened.
		p.mountNew("tmpfs", dir, "mode=0755")
		p.add("make "+blank, unix.SYS_MKNODAT, atCWD, blank, unix.S_IFSOCK, 0)
	}
	var masks []string
	for _, m := range l.Mounts {
		if from, ok := kept[m.Path]; ok {
			p.makePoint(m, masks)
			p.bind("mount on "+m.Path, from, p.open(m.Path))
			if m.Mode == Shown {
				p.remount("make read-only "+m.Path, m.Path, flagsAt(on, m.Path)|unix.MS_RDONLY)
			}
			continue
		}
		first := len(p.calls)
		switch {
		case m.Path == "/dev/pts":
			p.mountNew("devpts", m.Path, "newinstance,ptmxmode=0666")
		case m.Mode == Masked && m.Kind == Dir:
			masks = append(masks, m.Path)
			if m.Path != l.blankDir() {
				p.mountNew("tmpfs", m.Path, "mode=0755")
			}
		case m.Mode == Masked:
			p.bind("mask "+m.Path, p.open(blank), p.open(m.Path))
		default:
			p.bind("bind "+m.Path, p.open(m.Path), p.open(m.Path))
			if m.Mode == Fixed {
				p.remount("make read-only "+m.Path, m.Path, flagsAt(on, m.Path)|unix.MS_RDONLY)
				for _, below := range on {
					if below.Path != m.Path && sandboxpolicy.Below(m.Path, below.Path) {
						p.remount("make read-only "+below.Path, below.Path, below.Flags|unix.MS_RDONLY)
					}
				}
			}
		}
		if m.Fleeting && lenient {
			for i := first; i < len(p.calls); i++ {
				p.calls[i].past = len(p.calls)
			}
		}
	}
	for _, mask := range masks {
		p.remount("mask "+mask, mask, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NOEXEC)
	}
}

// blankDir returns the masked folder that holds the file to mount over masked files. The
// folder is not inside another mount; "" if there is none.
func (l Layout) blankDir() string {
	for _, m := range l.Mounts {
		if m.Mode == Masked && m.Kind == Dir && strings.Count(m.Path, "/") == 1 {
			return m.Path
		}
	}
	return ""
}

// isApart reports whether a path is inside a mount that stays unchanged.
func (l Layout) isApart(name string) bool {
	return slices.ContainsFunc(l.Mounts, func(m Mount) bool { return (m.Mode == Kept || m.Mode == Writable) && sandboxpolicy.Below(m.Path, name) })
}

// flagsAt returns the flags of the mount that contains a path.
func flagsAt(on []Mounted, name string) (flags uintptr) {
	for _, m := range on { // parents come first
		if sandboxpolicy.Below(m.Path, name) {
			flags = m.Flags
		}
	}
	return flags
}

// dupTo duplicates a descriptor to a fixed number, so that its /proc path is known in
// advance.
func (p *program) dupTo(fd result, number int) string {
	p.add("name a descriptor", unix.SYS_DUP3, fd, number, unix.O_CLOEXEC)
	p.add("close", unix.SYS_CLOSE, fd)
	return "/proc/self/fd/" + strconv.Itoa(number)
}

// bind bind-mounts an opened file or folder, with all mounts below it, and
// closes both descriptors.
func (p *program) bind(what string, from, to result) {
	p.add(what, unix.SYS_MOUNT, p.dupTo(from, fromFD), p.dupTo(to, toFD), 0, unix.MS_BIND|unix.MS_REC, 0).planned()
}

// remount changes the flags of one mount.
func (p *program) remount(what, name string, flags uintptr) {
	p.add(what, unix.SYS_MOUNT, "", p.dupTo(p.open(name), toFD), 0, unix.MS_BIND|unix.MS_REMOUNT|flags, 0).planned()
}

// mountNew mounts a new file system.
func (p *program) mountNew(kind, name, options string) {
	p.add("mount "+kind+" on "+name, unix.SYS_MOUNT, kind, p.dupTo(p.open(name), toFD), kind, unix.MS_NOSUID|unix.MS_NOEXEC, options).planned()
}
