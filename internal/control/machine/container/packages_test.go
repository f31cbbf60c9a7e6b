package container

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/need"
	"aloft/internal/policy"
)

// TestPackages installs packages as a user does, from the host's package sources.
func TestPackages(t *testing.T) {
	for _, name := range []string{"apt-get", "npm", "node"} {
		need.Command(t, name)
	}
	registry, err := exec.Command("npm", "config", "get", "registry").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			m := create(t, newRuntime(t, t.TempDir(), path), machine.Spec{Image: "host", Network: policy.Network{Mode: policy.AllowAll}})
			const apt = "cd /tmp && sudo apt-get update && sudo apt-get install -y hello && hello"
			got := ask(t, m, "sh", "-c", asUser+`sh -c "$0" 2>&1`, apt)
			if !strings.HasSuffix(got.Output, "Hello, world!\n") || strings.Contains(got.Output, "unsandboxed") {
				t.Errorf("apt-get: %s", got.Output)
			}
			const npm = `set -e; mkdir -p /tmp/js; cd /tmp/js; echo '{}' > package.json
npm install --registry "$0" --no-audit --no-fund is-number@7.0.0 >npm.log 2>&1 || cat npm.log; node -e 'console.log("installed", require("is-number")(5))'`
			if got := ask(t, m, "sh", "-c", asUser+`sh -c "$0" "$1" 2>&1`, npm, strings.TrimSpace(string(registry))); got.Output != "installed true\n" {
				t.Errorf("npm: %s", got.Output)
			}
			recorded(t, m, func(c policy.Connection) bool { return c.Allowed && c.Domain != "" && c.Received > 40<<10 })
		})
	}
}

// packageServer serves a package repository with aloft-thing, and returns its
// line for a machine's sources list. Like those of real packages, its scripts
// create users, change owners and start services.
func packageServer(t *testing.T) string {
	t.Helper()
	need.Command(t, "dpkg-deb")
	repo, index := t.TempDir(), ""
	for _, version := range []string{"1", "2"} {
		control := "Package: aloft-thing\nVersion: " + version + "\nArchitecture: all\nMaintainer: A <a@example.com>\nDescription: a thing\n"
		dir := t.TempDir()
		for name, f := range map[string]struct {
			mode os.FileMode
			text string
		}{
			"DEBIAN/control":         {0o644, control},
			"DEBIAN/conffiles":       {0o644, "/etc/aloft-thing.conf\n/etc/init.d/aloft-thing\n"},
			"DEBIAN/postinst":        {0o755, "#!/bin/sh\nset -e\n[ \"$1\" = configure ] || exit 0\nid aloft-thing >/dev/null 2>&1 || useradd --system --shell /usr/sbin/nologin aloft-thing\nchown aloft-thing:aloft-thing /usr/bin/aloft-thing-2\nchmod 2755 /usr/bin/aloft-thing-2\nupdate-rc.d aloft-thing defaults\ninvoke-rc.d aloft-thing start\n"},
			"etc/aloft-thing.conf":   {0o644, "version " + version + "\n"},
			"etc/init.d/aloft-thing": {0o755, "#!/bin/sh\n### BEGIN INIT INFO\n# Provides: aloft-thing\n# Required-Start:\n# Required-Stop:\n# Default-Start: 2 3 4 5\n# Default-Stop: 0 1 6\n### END INIT INFO\necho started > /run/aloft-thing\n"},
			"usr/bin/aloft-thing":    {0o755, "#!/bin/sh\necho thing " + version + "\n"},
		} {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(f.text), f.mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Link(filepath.Join(dir, "usr/bin/aloft-thing"), filepath.Join(dir, "usr/bin/aloft-thing-2")); err != nil {
			t.Fatal(err)
		}
		deb := "aloft-thing_" + version + ".deb"
		if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--root-owner-group", "--build", dir, filepath.Join(repo, deb)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		data, err := os.ReadFile(filepath.Join(repo, deb))
		if err != nil {
			t.Fatal(err)
		}
		index += fmt.Sprintf("%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", control, deb, len(data), sha256.Sum256(data))
	}
	if err := os.WriteFile(filepath.Join(repo, "Packages"), []byte(index), 0o644); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.FileServer(http.Dir(repo)))
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	return "deb [trusted=yes] http://host.aloft.internal:" + port + "/ ./"
}

// TestPackagesOffline installs, upgrades and removes a package from a
// repository on this host, with a saved disk in between. It then requests a
// package without a network.
func TestPackagesOffline(t *testing.T) {
	source := packageServer(t)
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, t.TempDir(), path)
			spec := machine.Spec{Image: "host", Network: opened(policy.AllowAll)}
			user := func(m machine.Machine, command, want string) {
				t.Helper()
				got := ask(t, m, "sh", "-c", asUser+`sh -c "cd /tmp; $0" 2>&1`, command)
				if !strings.HasSuffix(got.Output, want) || strings.Contains(got.Output, "unsandboxed") {
					t.Errorf("%s: %s, want %q", command, got.Output, want)
				}
			}
			m := create(t, r, spec)
			user(m, `sudo rm -rf /etc/apt/sources.list.d /etc/apt/sources.list; echo '`+source+`' | sudo tee /etc/apt/sources.list`, "./\n")
			user(m, "sudo apt-get update && sudo apt-get install -y aloft-thing=1 && aloft-thing", "thing 1\n")
			user(m, "stat -c '%U:%G %a' /usr/bin/aloft-thing-2; ls /run/aloft-thing; sudo service aloft-thing start; cat /run/aloft-thing",
				"aloft-thing:aloft-thing 2755\nls: cannot access '/run/aloft-thing': No such file or directory\nstarted\n")
			user(m, "sudo apt-get -y upgrade aloft-thing && aloft-thing && cat /etc/aloft-thing.conf", "thing 2\nversion 2\n")
			user(m, "sudo mv /usr/share/common-licenses /usr/share/moved && sudo rm /usr/bin/factor && stat -c %F /usr/share/moved/GPL-2", "regular file\n")
			user(m, "sudo dpkg --audit; dpkg -s aloft-thing dpkg | grep ^Status", "Status: install ok installed\nStatus: install ok installed\n")
			if err := m.(machine.Snapshotter).Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			saved := layer.NewID(layer.Build)
			if err := m.(machine.Snapshotter).Freeze(t.Context(), saved); err != nil {
				t.Fatal(err)
			}
			if err := m.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			spec.Layer, spec.Network = saved, policy.Network{}
			m = create(t, r, spec)
			user(m, "aloft-thing; ls /usr/share/common-licenses /usr/bin/factor | wc -l; ls /usr/share/moved/GPL-2",
				"thing 2\nls: cannot access '/usr/share/common-licenses': No such file or directory\nls: cannot access '/usr/bin/factor': No such file or directory\n0\n/usr/share/moved/GPL-2\n")
			user(m, "sudo apt-get purge -y aloft-thing >/dev/null && ls /usr/bin/aloft-thing /etc/aloft-thing.conf | wc -l",
				"ls: cannot access '/usr/bin/aloft-thing': No such file or directory\nls: cannot access '/etc/aloft-thing.conf': No such file or directory\n0\n")
			user(m, "sudo apt-get clean; sudo apt-get install -y aloft-thing 2>&1 | grep -c -E '^E: (Failed to fetch|Unable to fetch)'", "2\n")
			for _, name := range []string{"/usr/bin/aloft-thing", "/usr/share/moved", "/var/lib/dpkg/info/aloft-thing.list"} {
				if _, err := os.Lstat(name); err == nil {
					t.Errorf("the host has %s", name)
				}
			}
		})
	}
}

// TestDockerFromPackages installs Docker in a running machine of the host's system.
// Docker must work at once.
func TestDockerFromPackages(t *testing.T) {
	need.Command(t, "busybox")
	r := dockerRuntime(t)
	m := create(t, r, machine.Spec{Image: "host", Network: policy.Network{Mode: policy.AllowAll}, Limits: machine.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 1000}})
	do(t, m, "cd /tmp; "+asUser+"sh -c 'sudo apt-get update && sudo apt-get install -y --no-install-recommends docker.io'")
	startDocker(t, m)
	makeContainerImage(t, m)
	if got := do(t, m, asUser+"sudo docker run --rm box cat /built; docker info -f '{{.Driver}}'"); got != "built\noverlay2" {
		t.Errorf("a container says %q", got)
	}
}
