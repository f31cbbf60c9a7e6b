package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/need"
	"aloft/internal/policy/calls"
	"aloft/internal/server/unprivileged"
)

// unit returns the settings of a service, by name.
func unit(t *testing.T, name string) (text string, settings map[string]string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	settings = map[string]string{}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			settings[name] = value
		}
	}
	return string(data), settings
}

// TestServer checks that the server runs as an ordinary user and can connect to
// the host-daemon.
func TestServer(t *testing.T) {
	_, settings := unit(t, "aloft.service")
	_, socket := unit(t, "aloft-host-daemon.socket")
	for name, want := range map[string]string{
		"User": "aloft", "CapabilityBoundingSet": "", "AmbientCapabilities": "", "NoNewPrivileges": "yes", "ProtectSystem": "strict",
		"ReadWritePaths": "/var/lib/aloft", "RestrictNamespaces": "yes", "Requires": "aloft-host-daemon.service",
		"Environment": "ALOFT_HOST_DAEMON=" + socket["ListenStream"],
	} {
		if got, ok := settings[name]; !ok || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if socket["SocketUser"] != settings["User"] || socket["SocketMode"] != "0600" {
		t.Errorf("the socket belongs to %q with mode %q", socket["SocketUser"], socket["SocketMode"])
	}
	users, err := os.ReadFile("sysusers.conf")
	if err != nil || !strings.Contains(string(users), "\nu "+unprivileged.UserName+" ") || unprivileged.UserName != settings["User"] {
		t.Errorf("the packages create another user: %s, %v", users, err)
	}
}

// TestHostDaemon checks that the host-daemon keeps the privileges that it and machines
// need, and drops all others.
func TestHostDaemon(t *testing.T) {
	_, settings := unit(t, "aloft-host-daemon.service")
	for name, want := range map[string]string{
		"Type": "notify", "KillMode": "process", "Delegate": "yes", "SystemCallArchitectures": "native", "RestrictRealtime": "yes", "SystemCallErrorNumber": "EPERM",
	} {
		if settings[name] != want {
			t.Errorf("%s is %q, want %q", name, settings[name], want)
		}
	}
	// Each of these settings breaks machines, as the unit explains.
	for _, name := range []string{
		"NoNewPrivileges", "MemoryDenyWriteExecute", "RestrictSUIDSGID", "ProtectHostname", "ProtectProc", "ProcSubset", "ProtectKernelTunables",
		"ProtectKernelLogs", "ProtectControlGroups", "ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateMounts", "PrivateDevices", "RestrictNamespaces", "User",
	} {
		if value, ok := settings[name]; ok {
			t.Errorf("%s=%s breaks machines", name, value)
		}
	}
	dropped, ok := strings.CutPrefix(settings["CapabilityBoundingSet"], "~")
	if !ok {
		t.Fatal("the capabilities are not a list of those to drop")
	}
	for _, needed := range []string{
		"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "SETFCAP", "NET_ADMIN", "NET_RAW", "NET_BIND_SERVICE",
		"SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE", "SYS_RESOURCE", "MKNOD", "AUDIT_WRITE",
	} {
		if slices.Contains(strings.Fields(dropped), "CAP_"+needed) {
			t.Errorf("CAP_%s is needed for machines", needed)
		}
	}
	families := map[int]string{unix.AF_UNIX: "AF_UNIX", unix.AF_INET: "AF_INET", unix.AF_INET6: "AF_INET6", unix.AF_NETLINK: "AF_NETLINK", unix.AF_PACKET: "AF_PACKET"}
	for _, s := range calls.Sockets {
		if name := families[s.Family]; name == "" || !slices.Contains(strings.Fields(settings["RestrictAddressFamilies"]), name) {
			t.Errorf("machines may open sockets of family %d, and the service may not", s.Family)
		}
	}
}

// TestUnitsVerified has systemd check the units and rate the services'
// exposure.
func TestUnitsVerified(t *testing.T) {
	program := need.Command(t, "systemd-analyze")
	dir := t.TempDir()
	// Thresholds are ten times the scores in docs/guide/install.md.
	for name, threshold := range map[string]string{"aloft.service": "16", "aloft-host-daemon.service": "75", "aloft-host-daemon.socket": ""} {
		text, _ := unit(t, name)
		// The program and the user do not exist on this host.
		text = regexp.MustCompile(`(?m)^ExecStart=.*$`).ReplaceAllString(text, "ExecStart=/bin/true")
		if threshold == "" {
			text = strings.ReplaceAll(text, "SocketUser=aloft\n", "SocketUser=root\n")
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if threshold == "" {
			continue
		}
		if out, err := exec.CommandContext(t.Context(), program, "security", "--offline=true", "--threshold="+threshold, filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	verify := exec.CommandContext(t.Context(), program, "verify", "--man=no", filepath.Join(dir, "aloft.service"), filepath.Join(dir, "aloft-host-daemon.socket"))
	if out, err := verify.CombinedOutput(); err != nil || strings.Contains(string(out), "aloft") {
		t.Errorf("%v: %s", err, out)
	}
}
