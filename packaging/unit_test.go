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
)

// unit returns the settings of the service, by name.
func unit(t *testing.T) (text string, settings map[string]string) {
	t.Helper()
	data, err := os.ReadFile("aloft.service")
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

// TestUnit checks that the service keeps what the server and machines need, and
// gives up the rest.
func TestUnit(t *testing.T) {
	_, settings := unit(t)
	for name, want := range map[string]string{
		"KillMode": "process", "Delegate": "yes", "SystemCallArchitectures": "native", "RestrictRealtime": "yes", "SystemCallErrorNumber": "EPERM",
	} {
		if settings[name] != want {
			t.Errorf("%s is %q, want %q", name, settings[name], want)
		}
	}
	// Each breaks machines, as the unit explains.
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

// TestUnitVerified has systemd check the unit and rate what it exposes.
func TestUnitVerified(t *testing.T) {
	program := need.Command(t, "systemd-analyze")
	text, _ := unit(t)
	// The program is not installed here.
	text = regexp.MustCompile(`(?m)^ExecStart=.*$`).ReplaceAllString(text, "ExecStart=/bin/true")
	file := filepath.Join(t.TempDir(), "aloft.service")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), program, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), "aloft.service") {
		t.Errorf("%v: %s", err, out)
	}
	// The score is in docs/guide/install.md; the threshold is ten times that.
	if out, err := exec.CommandContext(t.Context(), program, "security", "--offline=true", "--threshold=75", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
