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

// Workspace is the folder that tools work in. Tools can access every file that
// their process can: the machine is the security boundary, and exec-daemon runs
// as the agent's user.
type Workspace struct {
	Dir     string   // absolute; relative paths start here
	Ripgrep string   // path of rg; "rg" by default; see ripgrep.Command
	Sandbox *Sandbox // nil if sandboxing is disabled
	Seen    *Seen    // files that the model has read; nil to track none
	Home    string   // home folder of the agent's user; "" if there is none
	Free    []string // folders outside Dir that a guarded call may change, for temporary files and artifacts
	// PDFCommand runs pdf.Main; by default this program with the argument
	// pdf-text.
	PDFCommand []string

	confined *sandbox.Request // the sandbox in which a call's ripgrep runs; nil for none
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

// path returns the absolute form of a path that the model gave. It refuses
// paths that .cursorignore hides.
func (w Workspace) path(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("path is empty: give a path, absolute or relative to " + w.Dir)
	case strings.ContainsRune(name, 0):
		return "", fmt.Errorf("path %q contains a zero byte, which no file name can", name)
	case filepath.IsAbs(name):
		name = filepath.Clean(name)
	default:
		name = filepath.Join(w.Dir, name)
	}
	return name, NewUnseen(w.Dir).Check(name)
}

// explain turns a file error into a message that the model can act on.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist%s", path, nearestFolder(path))
	case errors.Is(err, fs.ErrPermission):
		return denied("permission denied: %s is not accessible to user id %d; check it with ls -ld, or use sudo in Shell if you mean it", path, os.Getuid())
	case errors.Is(err, syscall.ELOOP):
		return fmt.Errorf("%s: its symbolic links form a loop; check them with ls -l", path)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: one of its parent folders is a file", path)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("the path is too long: a name may have 255 bytes and a path 4095")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk is full, so %s cannot be written; free some space and try again", path)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s is on a read-only file system", path)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok { // the error's path may point through an open folder, so drop it
		return fmt.Errorf("%s: %w", path, e.Err)
	}
	return err
}

// nearestFolder says how much of a missing path exists.
func nearestFolder(path string) string {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err == nil {
		return fmt.Sprintf("; its folder %s does: list it with Glob", dir)
	}
	for dir != "/" && dir != "." {
		dir = filepath.Dir(dir)
		if _, err := os.Stat(dir); err == nil {
			return fmt.Sprintf("; the nearest existing folder is %s", dir)
		}
	}
	return ""
}
