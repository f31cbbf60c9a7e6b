package desktop

import (
	"cmp"
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// files are settings of the desktop's programs, and scripts that start them.
// The user's own settings take precedence.
//
//go:embed files
var files embed.FS

// dirMark is a placeholder in files for the folder to which Furnish writes them.
const dirMark = "@DIR@"

// Furnish writes the desktop's files to a folder, and replaces existing ones.
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

// furnished returns the variables that make programs find the files that
// [Furnish] wrote to dir.
func furnished(env []string, dir string) map[string]string {
	return map[string]string{
		"XDG_CURRENT_DESKTOP": "XFCE", "XDG_MENU_PREFIX": "xfce-",
		"XDG_CONFIG_DIRS": filepath.Join(dir, "xdg") + ":" + cmp.Or(value(env, "XDG_CONFIG_DIRS"), "/etc/xdg"),
		"XDG_DATA_DIRS":   filepath.Join(dir, "share") + ":" + cmp.Or(value(env, "XDG_DATA_DIRS"), "/usr/local/share:/usr/share"),
		// AT-SPI puts its socket there, or else into the user's home. Sockets on the
		// disk would keep gVisor from saving the machine's memory.
		"XDG_RUNTIME_DIR": RuntimeDir(dir),
		// Store settings in a file, which can be written in advance.
		"GSETTINGS_BACKEND": "keyfile",
	}
}

// RuntimeDir returns the folder for sockets of the desktop's programs, which must
// belong to the agent's user. dir is the folder that [Furnish] wrote to.
func RuntimeDir(dir string) string { return filepath.Join(dir, "runtime") }

// Bus returns the D-Bus daemon for the programs of the desktop and the agent. The caller
// passes it a socket. D-Bus starts some programs itself, such as the settings daemon of
// XFCE.
func Bus(env []string, dir string) Program {
	return Program{Name: "desktop-bus", Env: furnished(env, dir),
		Command: []string{"dbus-daemon", "--session", "--nofork", "--nopidfile", "--address=systemd:"}}
}

// SystemBusSocket is where programs look for the system bus.
const SystemBusSocket = "/run/dbus/system_bus_socket"

// SystemBus returns the machine's own D-Bus daemon, which must run as root. The caller
// passes it a socket. No service of the system uses it; browsers and parts of the
// desktop wait or complain if it is absent.
func SystemBus() Program {
	return Program{Name: "system-bus", Command: []string{"dbus-daemon", "--system", "--nofork", "--nopidfile", "--address=systemd:"}}
}

// accessibility is the launcher of AT-SPI, through which programs read the text and the
// buttons of other programs' windows.
const accessibility = "/usr/libexec/at-spi-bus-launcher"

// Programs returns the desktop's programs that are in the image, without [VNC]
// and the buses. has reports whether a command or a file exists, env is the environment of
// the agent's processes, and dir is the folder that Furnish wrote to.
func Programs(env []string, dir string, has func(command string) bool) []Program {
	own := furnished(env, dir)
	var list []Program
	for _, p := range []struct {
		name  string
		these [][]string // alternatives: the first that the image has
	}{
		{"desktop-settings", [][]string{{"xfsettingsd", "--no-daemon", "--disable-wm-check"}}},
		{"desktop-accessibility", [][]string{{accessibility, "--launch-immediately"}}},
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
