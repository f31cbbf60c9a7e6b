// Package desktop is the desktop of a machine: which programs it is made of, of
// those that the image has, and how a program that needs the screen has it
// started ([Wake]). pod-daemon starts them, when somebody connects to the
// display, and keeps them running.
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

// VNCPort is where its VNC server listens, on loopback.
const VNCPort = 5901

// What the screen is unless the environment says otherwise. VNC_RESOLUTION is
// width, height and bits of a pixel; VNC_DPI is dots per inch.
const (
	resolution = "1920x1200x24"
	dpi        = "96"
)

// Environ are the variables of every program in a machine with a desktop, which
// the image's and the agent's own go before: those of the product's published
// appendix A, and those with which it draws in software. bus is the socket of
// D-Bus, "" where there is none.
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

// Program is one of those that the desktop is made of.
type Program struct {
	Name    string // that pod-daemon keeps it under
	Command []string
	Env     map[string]string // beside that of all programs
}

// VNC is the server of the display, which takes its socket as systemd hands
// sockets over. env is what the agent's processes have. A resolution that cannot
// be one is not heeded.
func VNC(env []string) Program {
	size, depth := screen(env)
	dots := value(env, "VNC_DPI")
	if n, err := strconv.Atoi(dots); err != nil || n < 24 || n > 960 {
		dots = dpi
	}
	return Program{Name: "desktop-vnc", Command: []string{
		"Xtigervnc", ":" + strconv.Itoa(Display), "-rfbport", strconv.Itoa(VNCPort), "-localhost", "-SecurityTypes", "None",
		"-geometry", size, "-depth", depth, "-dpi", dots,
		// It is the size that pointers are reckoned by, and it is never blank.
		"-AcceptSetDesktopSize=0", "-AlwaysShared", "-s", "0", "-noreset", "-nolisten", "tcp", "-desktop", "Aloft",
	}}
}

var screenSize = regexp.MustCompile(`^([1-9][0-9]{2,3})x([1-9][0-9]{2,3})(?:x(16|24|32))?$`)

// screen is the size and the depth of the screen.
func screen(env []string) (size, depth string) {
	m := screenSize.FindStringSubmatch(value(env, "VNC_RESOLUTION"))
	if m == nil {
		m = screenSize.FindStringSubmatch(resolution)
	}
	depth = m[3]
	if depth == "" || depth == "32" { // 24 of the 32 are color
		depth = "24"
	}
	return fmt.Sprintf("%sx%s", m[1], m[2]), depth
}

// value is that of a variable; the last that is set counts.
func value(env []string, name string) (v string) {
	for _, kv := range env {
		if s, ok := strings.CutPrefix(kv, name+"="); ok {
			v = s
		}
	}
	return v
}

// VNCAddr is where the VNC server of the desktop listens.
func VNCAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(VNCPort)) }
