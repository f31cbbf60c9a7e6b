package gitserver

import (
	"errors"
	"fmt"
	"path/filepath"
)

// FileRoots are absolute paths of folders. In YAML the value may also be false,
// which means none.
type FileRoots []string

// UnmarshalYAML also accepts true, which older versions supported, so that
// check can reject it with a hint.
func (f *FileRoots) UnmarshalYAML(decode func(any) error) error {
	var all bool
	if decode(&all) == nil {
		if all {
			*f = FileRoots{"true"}
		}
		return nil
	}
	return decode((*[]string)(f))
}

func (f FileRoots) check() error {
	for _, dir := range f {
		switch {
		case dir == "true":
			return errors.New("git.allow_file: must be a list of folders whose repositories may be used, such as [/srv/git]; true is not accepted")
		case !filepath.IsAbs(dir):
			return fmt.Errorf("git.allow_file: %q is not an absolute path; list folders such as /srv/git", dir)
		}
	}
	return nil
}
