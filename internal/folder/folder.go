// Package folder defines the type for the entries of a folder in a machine.
package folder

import "time"

// Entry is an entry of a folder, as the machine reports it. The name is
// untrusted and may contain any bytes.
type Entry struct {
	Name     string
	Folder   bool // for a link, whether its target is a folder
	Link     bool
	Size     int64 // bytes
	Modified time.Time
}
