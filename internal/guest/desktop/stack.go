package desktop

import (
	"cmp"
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// files are settings of the desktop's programs, and scripts that start them. The
// user's own go before.
//
//go:embed files
var files embed.FS

// dirMark stands in files for the folder that they are put into.
const dirMark = "@DIR@"

// Furnish puts the desktop's files into a folder. They are written anew each
// time, whatever is there.
func Furnish(dir string) error {
	return fs.WalkDir(files, "files", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, "files"))
		if entry.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, []byte(strings.ReplaceAll(string(text), dirMark, dir)), 0o755)
	})
}

// furnished has programs find what [Furnish] has put into dir.
func furnished(env []string, dir string) map[string]string {
	return map[string]string{
		"XDG_CURRENT_DESKTOP": "XFCE", "XDG_MENU_PREFIX": "xfce-",
		"XDG_CONFIG_DIRS": filepath.Join(dir, "xdg") + ":" + cmp.Or(value(env, "XDG_CONFIG_DIRS"), "/etc/xdg"),
		"XDG_DATA_DIRS":   filepath.Join(dir, "share") + ":" + cmp.Or(value(env, "XDG_DATA_DIRS"), "/usr/local/share:/usr/share"),
		// Settings in a file that can be written beforehand.
		"GSETTINGS_BACKEND": "keyfile",
	}
}

// Bus is D-Bus for the desktop's programs and the agent's, on a socket that it is
// handed. It starts some of them itself, as the keeper of XFCE's settings.
func Bus(env []string, dir string) Program {
	return Program{Name: "desktop-bus", Env: furnished(env, dir),
		Command: []string{"dbus-daemon", "--session", "--nofork", "--nopidfile", "--address=systemd:"}}
}

// Programs are those of the desktop that the image has, beside [VNC] and [Bus].
// has reports whether there is a command; env is what the agent's processes have,
// and dir is what Furnish was given.
func Programs(env []string, dir string, has func(command string) bool) []Program {
	own := furnished(env, dir)
	var list []Program
	for _, p := range []struct {
		name  string
		these [][]string // the first that the image has
	}{
		{"desktop-settings", [][]string{{"xfsettingsd", "--no-daemon", "--disable-wm-check"}}},
		{"desktop-windows", [][]string{{"xfwm4"}, {"x-window-manager"}}},
		{"desktop-background", [][]string{{"xfdesktop"}}},
		{"desktop-panel", [][]string{{"xfce4-panel", "--disable-wm-check"}}},
		{"desktop-files", [][]string{{"thunar", "--daemon"}}},
		{"desktop-dock", [][]string{{"plank"}}},
	} {
		for _, command := range p.these {
			if !has(command[0]) {
				continue
			}
			if command[0] == "plank" {
				command = []string{filepath.Join(dir, "dock.sh")}
			}
			list = append(list, Program{Name: p.name, Command: command, Env: own})
			break
		}
	}
	return list
}
