package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"unicode"

	"golang.org/x/sys/unix"
)

// oneSpelling are file systems on which a mount covers every spelling of a name: either
// the file system is case-sensitive, or the kernel knows that it is not.
var oneSpelling = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
	unix.RAMFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1, unix.SQUASHFS_MAGIC, unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC,
	unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC,
}

// namesTried is how many names in a folder are tried in swapped case.
const namesTried = 16

// Folds reports whether the folder's file system ignores case. It looks up some
// names in the folder, or the folder's own name, in swapped case. If there are
// no names to try, it reports true for an unknown file system.
func (hostTree) Folds(dir string) bool {
	var of unix.Statfs_t
	if unix.Statfs(dir, &of) != nil || slices.Contains(oneSpelling, of.Type) {
		return false // nothing can be mounted on a missing folder
	}
	f, err := os.Open(dir)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(namesTried) // if there are no names, none is tried below
	tried := false
	for _, name := range append(names, "../"+filepath.Base(dir)) {
		at := filepath.Join(dir, name)
		var own, other, in, around unix.Stat_t
		if name[0] == '.' && filepath.Dir(at) != dir && (unix.Lstat(dir, &in) != nil || unix.Lstat(filepath.Dir(at), &around) != nil || in.Dev != around.Dev) {
			continue // a mount point: its name is in another file system
		}
		swapped := filepath.Join(filepath.Dir(at), swapCase(filepath.Base(at)))
		if swapped == at || unix.Lstat(at, &own) != nil {
			continue
		}
		tried = true
		if unix.Lstat(swapped, &other) == nil && own.Ino == other.Ino && own.Dev == other.Dev {
			return true
		}
	}
	return !tried
}

// swapCase returns a name with the case of its letters swapped.
func swapCase(name string) string {
	out := []rune(name)
	for i, r := range out {
		if unicode.IsUpper(r) {
			out[i] = unicode.ToLower(r)
		} else {
			out[i] = unicode.ToUpper(r)
		}
	}
	return string(out)
}
