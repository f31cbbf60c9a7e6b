// Package desktop describes a machine's desktop: its programs, and how other
// programs start it ([Wake]). pod-daemon starts these programs when a client
// connects to the display, and keeps them running.
package desktop

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

// Display is the number of the machine's display.
const Display = 1

// VNCPort is the port of the VNC server, on loopback.
const VNCPort = 5901

// Defaults of the screen. VNC_RESOLUTION is width, height and bits per pixel;
// VNC_DPI is dots per inch.
const (
	resolution = "1920x1200x24"
	dpi        = "96"
)

// Environ returns the environment variables for every program in a machine with
// a desktop: those of appendix A of the product's documentation, and those for
// software rendering. Variables of the image and the agent take precedence. bus
// is the socket of D-Bus, "" if it is not installed.
func Environ(bus string) []string {
	env := []string{
		"DISPLAY=:" + strconv.Itoa(Display), "VNC_RESOLUTION=" + resolution, "VNC_DPI=" + dpi,
		"GDK_SCALE=1", "QT_SCALE_FACTOR=1", "LIBGL_ALWAYS_SOFTWARE=1", "GALLIUM_DRIVER=llvmpipe",
	}
	if bus != "" {
		env = append(env, "DBUS_SESSION_BUS_ADDRESS=unix:path="+bus)
	}
	return env
}

// Program is a program of the desktop.
type Program struct {
	Name    string // its name as a service of pod-daemon
	Command []string
	Env     map[string]string // added to the environment of all programs
}

// VNC returns the display's server, which receives its socket through systemd's socket
// activation protocol. env is the environment of the agent's processes. VNC ignores an
// invalid resolution.
func VNC(env []string) Program {
	size, depth := screen(env)
	dots := value(env, "VNC_DPI")
	if n, err := strconv.Atoi(dots); err != nil || n < 24 || n > 960 {
		dots = dpi
	}
	return Program{Name: "desktop-vnc", Command: []string{
		"Xtigervnc", ":" + strconv.Itoa(Display), "-rfbport", strconv.Itoa(VNCPort), "-localhost", "-SecurityTypes", "None",
		"-geometry", size, "-depth", depth, "-dpi", dots,
		// The size stays fixed, since coordinates refer to it, and the screen
		// never blanks.
		"-AcceptSetDesktopSize=0", "-AlwaysShared", "-s", "0", "-noreset", "-nolisten", "tcp", "-desktop", "Aloft",
	}}
}

var screenSize = regexp.MustCompile(`^([1-9][0-9]{2,3})x([1-9][0-9]{2,3})(?:x(16|24|32))?$`)

// screen returns the size and the color depth of the screen.
func screen(env []string) (size, depth string) {
	m := screenSize.FindStringSubmatch(value(env, "VNC_RESOLUTION"))
	if m == nil {
		m = screenSize.FindStringSubmatch(resolution)
	}
	depth = m[3]
	if depth == "" || depth == "32" { // 24 of the 32 bits are color
		depth = "24"
	}
	return fmt.Sprintf("%sx%s", m[1], m[2]), depth
}

// value returns the value of a variable; if it is set more than once, the last
// one counts.
func value(env []string, name string) (v string) {
	for _, kv := range env {
		if s, ok := strings.CutPrefix(kv, name+"="); ok {
			v = s
		}
	}
	return v
}

// VNCAddr is the address of the desktop's VNC server.
func VNCAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(VNCPort)) }
