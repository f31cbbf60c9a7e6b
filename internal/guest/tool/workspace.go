package tool

import (
	"os"

	"aloft/internal/guest/file"
	"aloft/internal/guest/guard"
	"aloft/internal/guest/pdf"
	"aloft/internal/guest/sandbox"
)

// Workspace is the folder that tools work in. Tools can access every file that
// their process can: the machine is the security boundary, and exec-daemon runs
// as the agent's user.
type Workspace struct {
	Dir     string         // absolute; relative paths are relative to it
	Ripgrep string         // path of rg; "rg" by default; see ripgrep.Command
	Sandbox *guard.Sandbox // nil if sandboxing is disabled
	Seen    *file.Seen     // files that the model has read; nil to track none
	Home    string         // home folder of the agent's user; "" if there is none
	Free    []string       // folders outside Dir that a guarded call may change, for temporary files and artifacts
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

// files returns the workspace in the form of package file.
func (w Workspace) files() file.Workspace {
	return file.Workspace{Dir: w.Dir, Home: w.Home, Free: w.Free}
}

// path returns the absolute form of a path that the model gave. It refuses
// paths that .cursorignore hides.
func (w Workspace) path(name string) (string, error) { return w.files().Path(name) }

// target opens the folder of the file that the model gave as name: see
// [file.Workspace.Target].
func (w Workspace) target(name string, guarded, follow bool) (file.Target, error) {
	return w.files().Target(name, guarded, follow)
}
