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

// mounted lists what is mounted and can be seen, from the root down.
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

// parseMounts reads a mountinfo.
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
		// What is mounted later covers what was there.
		all = slices.DeleteFunc(all, func(old Mounted) bool { return sandboxpolicy.Below(m.Path, old.Path) })
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Mounted) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// unescape reads the octal that mountinfo has for spaces and their like.
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

// mountOld makes the layout's mounts by mount(2), which binds what is there
// and changes one mount at a time. Its paths go by descriptors, as those of the
// newer calls, so that no link put in their place leads elsewhere.
func (l Layout) mountOld(p *program, on []Mounted, lenient bool) {
	// What stays as it is, is mounted on itself, and so apart from the rest.
	kept := map[string]result{}
	for _, m := range l.Mounts {
		if m.Mode == Kept || m.Mode == Writable {
			p.bind("keep "+m.Path, p.open(m.Path), p.open(m.Path))
			kept[m.Path] = p.open(m.Path)
		}
	}
	for _, m := range on {
		if l.Frozen && !l.apart(m.Path) {
			first := len(p.calls)
			p.remount("make read-only "+m.Path, m.Path, m.Flags|unix.MS_RDONLY)
			// Where this user cannot go, the command cannot either.
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
		// What cannot be opened by anybody: a socket that nobody listens on.
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

// blankDir is the masked folder that holds what is mounted over masked files:
// one that lies in no other mount; "" if there is none.
func (l Layout) blankDir() string {
	for _, m := range l.Mounts {
		if m.Mode == Masked && m.Kind == Dir && strings.Count(m.Path, "/") == 1 {
			return m.Path
		}
	}
	return ""
}

// apart reports whether a path lies in what stays as it is.
func (l Layout) apart(name string) bool {
	return slices.ContainsFunc(l.Mounts, func(m Mount) bool { return (m.Mode == Kept || m.Mode == Writable) && sandboxpolicy.Below(m.Path, name) })
}

// flagsAt are those of the mount that a path is on.
func flagsAt(on []Mounted, name string) (flags uintptr) {
	for _, m := range on { // from the root down
		if sandboxpolicy.Below(m.Path, name) {
			flags = m.Flags
		}
	}
	return flags
}

// at gives a descriptor the number that has a name.
func (p *program) at(fd result, number int) string {
	p.add("name a descriptor", unix.SYS_DUP3, fd, number, unix.O_CLOEXEC)
	p.add("close", unix.SYS_CLOSE, fd)
	return "/proc/self/fd/" + strconv.Itoa(number)
}

// bind mounts what was opened, with all that is mounted below it, and closes both.
func (p *program) bind(what string, from, to result) {
	p.add(what, unix.SYS_MOUNT, p.at(from, fromFD), p.at(to, toFD), 0, unix.MS_BIND|unix.MS_REC, 0).planned()
}

// remount changes the flags of one mount.
func (p *program) remount(what, name string, flags uintptr) {
	p.add(what, unix.SYS_MOUNT, "", p.at(p.open(name), toFD), 0, unix.MS_BIND|unix.MS_REMOUNT|flags, 0).planned()
}

// mountNew mounts a new file system.
func (p *program) mountNew(kind, name, options string) {
	p.add("mount "+kind+" on "+name, unix.SYS_MOUNT, kind, p.at(p.open(name), toFD), kind, unix.MS_NOSUID|unix.MS_NOEXEC, options).planned()
}
