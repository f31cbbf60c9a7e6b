package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"aloft/internal/guest/pdf"
	"aloft/internal/guest/sandbox"
)

// Workspace is the folder that tools work in. Tools reach every file that
// their process may: the machine is the boundary, and exec-daemon runs as the
// agent's user.
type Workspace struct {
	Dir     string   // absolute; relative paths start here
	Ripgrep string   // path of rg; "rg" unless given
	Sandbox *Sandbox // nil if it is switched off
	Seen    *Seen    // what the model knows of files; nil to remember nothing
	Home    string   // folder of the agent's user; "" if there is none
	Free    []string // folders outside of Dir that a guarded call may change: for temporary files, for artifacts
	// PDFCommand runs pdf.Main; this program with the argument pdf-text unless given.
	PDFCommand []string

	confined *sandbox.Request // what the ripgrep of one call runs in; nil for nothing
}

func (w Workspace) pdf() pdf.Reader {
	command := w.PDFCommand
	if len(command) == 0 {
		self, err := os.Executable()
		if err != nil {
			self = "/proc/self/exe"
		}
		command = []string{self, "pdf-text"}
	}
	return pdf.Reader{Command: command}
}

// path returns the absolute form of a path that the model gave. It refuses what
// .cursorignore hides.
func (w Workspace) path(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("path is empty: give a path, absolute or relative to " + w.Dir)
	case strings.ContainsRune(name, 0):
		return "", fmt.Errorf("path %q holds a zero byte, which no file name can", name)
	case filepath.IsAbs(name):
		name = filepath.Clean(name)
	default:
		name = filepath.Join(w.Dir, name)
	}
	return name, NewUnseen(w.Dir).Check(name)
}

func (w Workspace) ripgrep() string {
	if w.Ripgrep == "" {
		return "rg"
	}
	return w.Ripgrep
}

// explain puts what went wrong with a file in words that the model can act on.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist%s", path, nearestFolder(path))
	case errors.Is(err, fs.ErrPermission):
		return denied("permission denied: %s is not open to user id %d; look at it with ls -ld, or use sudo in Shell if that is meant", path, os.Getuid())
	case errors.Is(err, syscall.ELOOP):
		return fmt.Errorf("%s: its symbolic links form a loop; look at them with ls -l", path)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: a part of the path before its last is a file, not a folder", path)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("the path is too long: a name may have 255 bytes and a path 4095")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("no space is left on the disk for %s; free some and try again", path)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s is on a file system that is read-only", path)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok { // its path may be one through an open folder
		return fmt.Errorf("%s: %w", path, e.Err)
	}
	return err
}

// nearestFolder says how much of a missing path is there.
func nearestFolder(path string) string {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err == nil {
		return fmt.Sprintf("; the folder %s does: list it with Glob", dir)
	}
	for dir != "/" && dir != "." {
		dir = filepath.Dir(dir)
		if _, err := os.Stat(dir); err == nil {
			return fmt.Sprintf("; of its folders only %s does", dir)
		}
	}
	return ""
}
