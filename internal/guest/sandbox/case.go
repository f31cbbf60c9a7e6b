package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"unicode"

	"golang.org/x/sys/unix"
)

// oneSpelling are the file systems on which a mount holds for every spelling of a
// name: they tell names apart by case, or have the kernel compare them.
var oneSpelling = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
	unix.RAMFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1, unix.SQUASHFS_MAGIC, unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC,
	unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC,
}

// namesTried is how many names of a folder are tried in another case.
const namesTried = 16

// Folds tries names of the folder, or the folder's own, in the other case. Where
// there is nothing to try, a file system that is not known may do anything.
func (hostTree) Folds(dir string) bool {
	var of unix.Statfs_t
	if unix.Statfs(dir, &of) != nil || slices.Contains(oneSpelling, of.Type) {
		return false // what is not there, no mount is on
	}
	f, err := os.Open(dir)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(namesTried) // none is tried below
	tried := false
	for _, name := range append(names, "../"+filepath.Base(dir)) {
		at := filepath.Join(dir, name)
		var own, other, in, around unix.Stat_t
		if name[0] == '.' && filepath.Dir(at) != dir && (unix.Lstat(dir, &in) != nil || unix.Lstat(filepath.Dir(at), &around) != nil || in.Dev != around.Dev) {
			continue // it is named by another file system
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

// swapCase is a name with its letters in the other case.
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
