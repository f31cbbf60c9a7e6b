package image

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"aloft/internal/fault"
	"aloft/internal/lockfile"
)

func TestNames(t *testing.T) {
	s := open(t)
	for _, name := range []string{"", "hos", "host:", "rootfs", "rootfs:", "rootfs:relative", "oci:", "oci:relative", "rootfs:/no/such", "oci:/no/such", "rootfs:/etc/passwd"} {
		if _, err := s.Prepare(t.Context(), name, nil); err == nil {
			t.Errorf("%q is no error", name)
		}
	}
}

func TestHost(t *testing.T) {
	s := open(t)
	img, err := s.Prepare(t.Context(), "host", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(img.Lower) != 1 || !slices.Contains(img.Views, "usr") {
		t.Fatalf("image is %+v", img)
	}
	entries, err := os.ReadDir(img.Lower[0])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "lib") && !strings.HasSuffix(e.Name(), "bin") {
			names = append(names, e.Name())
		}
	}
	if got, want := strings.Join(names, " "), "dev etc home media mnt opt proc root run srv sys tmp usr var workspace"; got != want {
		t.Errorf("the root holds %s, want %s", got, want)
	}
	for _, secret := range []string{"etc/ssh/ssh_host_ed25519_key", "etc/ssh/sshd_config", "etc/ssl/private", "etc/hosts.allow", "etc/machine-id", "etc/sudoers.d/README", "root/.ssh"} {
		if _, err := os.Lstat(filepath.Join(img.Lower[0], secret)); err == nil {
			t.Errorf("it holds %s", secret)
		}
	}
}

// TestHostIsAnother requests the host's system under the name that it had
// before an upgrade.
func TestHostIsAnother(t *testing.T) {
	s := open(t)
	img, err := s.Prepare(t.Context(), "host", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Prepare(t.Context(), img.Pinned, nil); err != nil || got.Lower[0] != img.Lower[0] {
		t.Errorf("%s is %+v, %v", img.Pinned, got, err)
	}
	if _, err := s.Prepare(t.Context(), "host@plan9-4", nil); fault.Of(err).Code != "image_not_found" {
		t.Errorf("the image of another system: %v", err)
	}
	h := host{root: aHost(t)}
	if got := h.pinned(); got != "host@debian" {
		t.Errorf("the system is %s", got)
	}
}

func TestCopyInLeavesSecrets(t *testing.T) {
	host := t.TempDir()
	for name, mode := range map[string]os.FileMode{"d/public": 0o644, "d/secret": 0o640, "closed/file": 0o644} {
		if err := os.MkdirAll(filepath.Join(host, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(host, name), []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(host, "closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	tr := &tree{}
	for _, name := range []string{"d", "closed", "absent"} {
		if err := tr.copyIn(root, name); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(tr.names(), " "); got != "d d/public" {
		t.Errorf("copied %s", got)
	}
}

func TestRootfs(t *testing.T) {
	s := open(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"usr/bin/sh": "", "usr/bin/bash": "", "etc/sudoers": "root ALL=(ALL) ALL\n",
		"etc/passwd": "root:x:0:0:root:/root:/bin/bash\n", "etc/pki/tls/certs/ca-bundle.crt": "image's own",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"bin": "usr/bin", "etc/ssl": "/etc/pki/tls", "home": "../../../../../../etc"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	img, err := s.Prepare(t.Context(), "rootfs:"+dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := view(img.Lower)
	bundle, err := hostBundle()
	if err != nil {
		t.Fatal(err)
	}
	if bundle != nil {
		for _, p := range []string{bundlePath, "etc/pki/tls/certs/ca-bundle.crt"} {
			f, err := os.ReadFile(filepath.Join(img.Lower[0], v.resolve(p)))
			if err != nil || string(f) != string(bundle) {
				t.Errorf("%s is not the host's bundle: %v", p, err)
			}
		}
	}
	if got := string(v.read("etc/sudoers")); !strings.Contains(got, userSudo) || !strings.Contains(got, "root ALL") {
		t.Errorf("sudoers is %q", got)
	}
	if _, info := v.lookup("etc/ubuntu"); info == nil {
		t.Error("/home leads to the image's own /etc, so the home is there")
	}
	before, err := os.ReadDir(dir)
	if err != nil || len(before) != 4 {
		t.Errorf("the tree itself was changed: %v", before)
	}
}

func TestUserOfOtherNumber(t *testing.T) {
	s := open(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"bin/sh": "", "etc/passwd": "root:x:0:0::/:/bin/sh\nubuntu:x:2000:2000::/home/ubuntu:/bin/sh\n"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Prepare(t.Context(), "rootfs:"+dir, nil); err == nil || !strings.Contains(err.Error(), "2000") {
		t.Errorf("error is %v", err)
	}
}

func TestManyAtOnceAndSweep(t *testing.T) {
	s := open(t)
	l := newLayout(t)
	l.index(l.image(smallImage(t)...))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := s.Prepare(t.Context(), "oci:"+l.dir, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	dead := filepath.Join(s.dir, "layers", unfinished+"dead")
	alive := filepath.Join(s.dir, "layers", unfinished+"alive")
	for _, d := range []string{dead, alive} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := lockfile.Open(alive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if _, err := Open(s.dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dead); err == nil {
		t.Error("what a dead process was making is still there")
	}
	if _, err := os.Lstat(alive); err != nil {
		t.Error("what a living process is making was removed")
	}
}

func TestMountsBelow(t *testing.T) {
	info := "22 1 8:1 / / rw - ext4 /dev/a rw\n23 22 8:2 / /usr/local rw - ext4 /dev/b rw\n24 22 8:3 / /usr/my\\040data rw - ext4 /dev/c rw\n25 22 8:4 / /usrx rw - ext4 /dev/d rw\n"
	got := mountsBelow(info, "/usr")
	if len(got) != 2 || got[0].Source != "/usr/local" || got[1].Target != "/usr/my data" {
		t.Errorf("got %v", got)
	}
}
