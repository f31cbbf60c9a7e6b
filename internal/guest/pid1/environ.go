package pid1

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// User is the user that the agent's processes run as.
type User struct {
	Name   string
	UID    uint32
	GID    uint32
	Groups []uint32
	Home   string
	Shell  string
}

// caBundle is where Debian-based systems keep the trusted certificate
// authorities.
const caBundle = "/etc/ssl/certs/ca-certificates.crt"

// fixed are the variables that cloud agents set for every image, and that scripts in
// users' repositories check. They are the variables in appendix A of the product's
// documentation that apply to a machine without a desktop.
var fixed = map[string]string{
	"CURSOR_AGENT":                    "1",
	"FORCE_COLOR":                     "0",
	"NO_COLOR":                        "1",
	"HOSTNAME":                        "cursor",
	"GIT_LFS_SKIP_SMUDGE":             "1",
	"GIT_DISCOVERY_ACROSS_FILESYSTEM": "0",
}

// paths are folders that are added to PATH, after those of the image, if they exist. The
// user's own folders come first.
var paths = []string{
	"~/.local/bin", "~/go/bin", "/usr/local/go/bin",
	"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
}

// Environ returns the environment of the agent's processes. It combines the variables of
// the image, of the user, of a cloud agent, and in given, in increasing order of
// precedence. It removes Aloft's own variables (ALOFT_…) from the image's. exists
// reports whether a path exists; bin is the folder of Aloft's commands, the last in
// PATH.
func Environ(image []string, user User, given map[string]string, bin string, exists func(path string) bool) []string {
	env := make(map[string]string)
	for _, kv := range image {
		name, value, ok := strings.Cut(kv, "=")
		if ok && name != "" && !strings.HasPrefix(name, "ALOFT_") {
			env[name] = value
		}
	}
	unlessSet := func(name, value string) {
		if env[name] == "" {
			env[name] = value
		}
	}
	unlessSet("LANG", "C.UTF-8")
	unlessSet("TERM", "xterm-256color")
	if exists(caBundle) {
		// OpenSSL and Go, Node, and Python's requests each read another variable.
		unlessSet("SSL_CERT_FILE", caBundle)
		unlessSet("NODE_EXTRA_CA_CERTS", caBundle)
		unlessSet("REQUESTS_CA_BUNDLE", caBundle)
	}
	if nvm := filepath.Join(user.Home, ".nvm"); exists(nvm) {
		unlessSet("NVM_DIR", nvm)
	}
	env["PATH"] = searchPath(env["PATH"], user.Home, bin, exists)
	maps.Copy(env, fixed)
	env["HOME"] = user.Home
	env["USER"], env["LOGNAME"] = user.Name, user.Name
	env["SHELL"] = user.Shell
	maps.Copy(env, given)

	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// ownNames are the variables of an image that Aloft's own programs receive:
// user, display and locale. They receive no others, because many variables
// change what a program runs or loads.
var ownNames = []string{
	"HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "SSL_CERT_FILE",
	"DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
	"CURSOR_AGENT_SOCKET", "ALOFT_INSIDE_TOKEN_FILE", "TMUX_TMPDIR", "GIT_CONFIG_SYSTEM", "GIT_DISCOVERY_ACROSS_FILESYSTEM",
}

// OwnEnviron returns the environment of Aloft's own programs, and of git commands that
// this daemon runs. environ is the agent's environment without the given variables.
// OwnEnviron drops variables that could make these programs run others, and folders in
// PATH that the agent's user may write.
func OwnEnviron(environ []string, user User, workspace string) []string {
	var own []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case name == "PATH":
			dirs := slices.DeleteFunc(filepath.SplitList(value), func(dir string) bool {
				return !filepath.IsAbs(dir) || isInside(user.Home, dir) || isInside(workspace, dir) || isInside("/tmp", dir) || isInside("/var/tmp", dir)
			})
			own = append(own, "PATH="+strings.Join(dirs, string(os.PathListSeparator)))
		case slices.Contains(ownNames, name):
			own = append(own, kv)
		}
	}
	return own
}

// isInside reports whether dir is folder or is inside it.
func isInside(folder, dir string) bool {
	rel, err := filepath.Rel(folder, dir)
	return folder != "" && folder != "/" && err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

func searchPath(image, home, bin string, exists func(string) bool) string {
	dirs := filepath.SplitList(image)
	for _, dir := range paths {
		if rest, ok := strings.CutPrefix(dir, "~"); ok {
			dir = home + rest
		}
		if !slices.Contains(dirs, dir) && exists(dir) {
			dirs = append(dirs, dir)
		}
	}
	if bin != "" && !slices.Contains(dirs, bin) {
		dirs = append(dirs, bin)
	}
	return strings.Join(dirs, string(os.PathListSeparator))
}
