package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// systemDirs are the folders of programs and libraries next to /usr.
var systemDirs = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// hostConfig lists what a machine sees of the host's /etc: what programs in
// /usr need to run, and nothing specific to this host. It is an allow list, so
// that files added to /etc later are not exposed.
var hostConfig = []string{
	"alternatives", "ld.so.conf", "ld.so.conf.d", "ld.so.cache",
	"debian_version", "os-release", "localtime", "timezone", "locale.alias",
	"services", "protocols", "rpc", "ethertypes", "mime.types", "magic",
	"inputrc", "terminfo", "login.defs", "security/limits.conf", "security/pam_env.conf",
	"ssl/openssl.cnf", "ssl/certs/java", "fonts", "perl", "python3", "vim",
	"gai.conf", "host.conf", "java-8-openjdk", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "java-25-openjdk",
}

// prepareHost returns the image of the host's own /usr. Its generated layer is
// updated when the process restarts, if its sources have changed.
func (s *Store) prepareHost(ctx context.Context) (Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host != nil {
		return *s.host, nil
	}
	t := skeleton()
	img := Image{Binds: []Bind{{Source: "/usr", Target: "/usr"}}}
	for _, name := range systemDirs {
		info, err := os.Lstat("/" + name)
		if err != nil {
			continue // not every host has all of them
		}
		if info.IsDir() {
			t.dir(name, 0o755, 0)
			img.Binds = append(img.Binds, Bind{Source: "/" + name, Target: "/" + name})
			continue
		}
		target, err := os.Readlink("/" + name)
		if err != nil || !strings.HasPrefix(filepath.Join("/", target), "/usr/") {
			return Image{}, fmt.Errorf("/%s is neither a directory nor a link into /usr; use a rootfs:DIR or oci:DIR image", name)
		}
		t.link(name, target)
	}
	etc, err := os.OpenRoot("/etc")
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = etc.Close() }()
	for _, name := range hostConfig {
		if err := t.copyIn(etc, name); err != nil {
			return Image{}, fmt.Errorf("copy /etc/%s: %w", name, err)
		}
	}
	bundle, err := hostBundle()
	if err != nil {
		return Image{}, err
	}
	if bundle != nil {
		t.file(bundlePath, 0o644, 0, bundle)
	}
	dir, err := s.generate(ctx, t)
	if err != nil {
		return Image{}, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Image{}, err
	}
	img.Binds = append(img.Binds, mountsBelow(string(mounts), img.Binds)...)
	img.Lower, img.Pinned = []string{dir}, "host"
	s.host = &img
	return img, nil
}

// mountsBelow returns bind mounts for the file systems mounted below the bound
// folders, since a bind mount does not include them.
func mountsBelow(mountinfo string, binds []Bind) []Bind {
	var out []Bind
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		path := unescape(fields[4])
		for _, b := range binds {
			if strings.HasPrefix(path, b.Source+"/") {
				out = append(out, Bind{Source: path, Target: path})
			}
		}
	}
	return out
}

// unescape decodes the octal escapes of a path in mountinfo.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}
