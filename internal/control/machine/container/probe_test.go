package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, c := range Probe(t.Context(), Config{Dir: dir, RuntimePath: engines(t)["runc"]}) {
		t.Logf("%-16s %-5v %s; %s", c.Name, c.OK, c.Detail, c.Fix)
		if c.Detail == "" || c.OK != (c.Fix == "") {
			t.Errorf("%+v: a check says what was found, and what to do exactly if it fails", c)
		}
		if c.Required && !c.OK {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("it leaves %v, %v", entries, err)
	}
}

func TestProbeSaysWhatIsMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := probeOverlay(file); c.OK || c.Fix == "" {
		t.Errorf("overlay in a file: %+v", c)
	}
	if c := probeEngine(t.Context(), "x", file, true, "mend it"); c.OK || c.Fix != "mend it" {
		t.Errorf("an engine that does not run: %+v", c)
	}
	// /proc cannot hold an upper layer: the mount fails as it would if the data
	// folder were itself an overlay.
	if c := probeOverlay("/proc"); c.OK || !strings.Contains(c.Name, "overlay") {
		t.Errorf("overlay in /proc: %+v", c)
	}
}

// TestProbeSaysWhereDockerRuns checks that the result says for each runtime
// whether its machines can run Docker.
func TestProbeSaysWhereDockerRuns(t *testing.T) {
	runc := engines(t)["runc"]
	t.Setenv("PATH", "/usr/bin:/bin")
	for name, c := range map[string]struct {
		conf Config
		ok   bool
		want string
	}{
		"nothing":        {Config{Dir: t.TempDir(), RuntimePath: "/no/runc"}, false, "not by runc and crun: user namespace: open /no/runc"},
		"gVisor":         {Config{Dir: t.TempDir(), RuntimePath: "/no/runc", StrongRuntimePath: "/opt/runsc"}, true, "by /opt/runsc in machines of class strong"},
		"gVisor for all": {Config{RuntimePath: "/opt/runsc"}, true, "by /opt/runsc, without bridges"},
		"runc":           {Config{Dir: t.TempDir(), RuntimePath: runc}, true, "if machine.docker is true: in machines with user namespaces"},
		"both":           {Config{Dir: t.TempDir(), RuntimePath: runc, StrongRuntimePath: "/opt/runsc"}, true, "in machines with user namespaces, and by /opt/runsc"},
	} {
		got := probeDocker(c.conf)
		if got.OK != c.ok || got.Required || (got.Fix == "") != c.ok || !strings.Contains(got.Detail, c.want) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}
