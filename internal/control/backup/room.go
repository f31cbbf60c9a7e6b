package backup

import (
	"io"

	"aloft/internal/control/disk"
	"aloft/internal/fault"
)

// maxFiles is how many files and folders an archive may have, without those in layers.
// A restore keeps the names of all of them in memory.
const maxFiles = 4 << 20

// checkEvery is after how many bytes of a backup a restore checks the disk. A file of the
// archive, also one in a layer, takes at least 512 bytes of it.
const checkEvery = 1 << 20

// A roomReader reads a backup that is being restored to dir. Read fails if the disk is
// nearly full, in bytes or inodes, since a backup is not signed and may hold anything.
type roomReader struct {
	io.Reader

	dir  string
	left int   // how many bytes may be read before the next check
	full error // why the disk has no room for the backup
}

// Read implements [io.Reader].
func (r *roomReader) Read(b []byte) (int, error) {
	if r.left <= 0 {
		free, low, err := disk.Low(r.dir)
		if err != nil {
			return 0, err
		}
		if low {
			r.full = fault.Exhausted("the backup does not fit on the disk: %d MiB are free", free>>20).Named("disk_full").
				Hint("free space or inodes (df -i), or restore it to a larger disk; nothing was restored")
			return 0, r.full
		}
		r.left = checkEvery
	}
	n, err := r.Reader.Read(b)
	r.left -= n
	return n, err
}
