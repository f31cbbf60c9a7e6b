package image

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"aloft/internal/fault"
)

// viewDirs are the top-level folders of the host that a machine sees with its
// own changes on top. Folders that are links into /usr become the same links.
var viewDirs = []string{"usr", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// localDirs are the view folders that no distribution's package writes to. A
// file in them may be a secret of this host, so files that are not
// world-readable are hidden.
var localDirs = []string{"opt", "usr/local"}

// hostConfig lists the files of the host's /etc that a machine sees besides the
// files of packages. Programs in /usr need these files, and the files contain
// nothing specific to this host. hostConfig is an allow list, so that files
// added to /etc later are not exposed.
var hostConfig = []string{
	"alternatives", "ca-certificates.conf", "ld.so.conf", "ld.so.conf.d", "ld.so.cache",
	"debian_version", "os-release", "lsb-release", "localtime", "timezone", "locale.alias", "locale.gen",
	"services", "protocols", "rpc", "ethertypes", "mime.types", "magic",
	"inputrc", "terminfo", "login.defs", "security/limits.conf", "security/pam_env.conf",
	"ssl/openssl.cnf", "ssl/certs/java", "fonts", "perl", "python3", "vim",
	"gai.conf", "host.conf", "java-8-openjdk", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "java-25-openjdk",
}

// A host is the system that the image "host" shows.
type host struct {
	root     *os.Root // its /
	settings string   // the output of apt-config dump
	own      string   // the image store's folder, which no machine may see
}

// prepareHost returns the image of the host's own system. Its generated layer is
// updated when the process restarts, if its sources have changed.
func (s *Store) prepareHost(ctx context.Context) (Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host != nil {
		return *s.host, nil
	}
	root, err := os.OpenRoot("/")
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = root.Close() }()
	// A host without apt has no settings.
	settings, _ := exec.CommandContext(ctx, "apt-config", "dump").Output()
	h := host{root: root, settings: string(settings), own: s.dir}
	t, img, err := h.view()
	if err != nil {
		return Image{}, err
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
	img.Binds = mountsBelow(string(mounts), "/usr")
	img.Lower, img.Pinned = []string{dir}, h.pinned()
	s.host = &img
	return img, nil
}

// hostOf is the prefix of image names that mean the host's system. These names
// become invalid when the host's distribution or release changes.
const hostOf = "host@"

// pinned returns the name of the image that saved layers record. Saved changes
// to the programs and packages of one release do not fit another.
func (h host) pinned() string {
	data, _ := h.root.ReadFile("etc/os-release") // in Debian, a link to usr/lib/os-release
	if data == nil {
		data, _ = h.root.ReadFile("usr/lib/os-release")
	}
	release := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		release[name] = strings.Trim(value, `"'`)
	}
	if release["ID"] == "" {
		return "host"
	}
	return strings.TrimSuffix(hostOf+release["ID"]+"-"+release["VERSION_ID"], "-")
}

// prepareHostOf returns the image of the host's system if its pinned name is
// still the given name.
func (s *Store) prepareHostOf(ctx context.Context, name string) (Image, error) {
	img, err := s.prepareHost(ctx)
	if err == nil && img.Pinned != name {
		return Image{}, fault.NotFound("the system of this host is now %s", strings.TrimPrefix(img.Pinned, hostOf)).Named("image_not_found").
			Hint("create the snapshot or build again on this system")
	}
	return img, err
}

// view returns the generated layer of the image and the image's views and
// environment.
func (h host) view() (*tree, Image, error) {
	t := skeleton()
	var img Image
	for _, name := range viewDirs {
		info, err := h.root.Lstat(name)
		switch {
		case err != nil:
			continue // not every host has all of them
		case info.IsDir() && !isBelow(h.own, "/"+name):
			t.like(h.root, name)
			img.Views = append(img.Views, name)
			continue
		case info.IsDir() && name == "opt":
			continue // /opt contains the server's data, so machines do not see it
		case info.IsDir():
			return nil, img, fmt.Errorf("the server's data is in %s, below /%s, which machines see: move it, for example to /var/lib/aloft", h.own, name)
		}
		target, err := h.root.Readlink(name)
		if err != nil || !strings.HasPrefix(filepath.Join("/", target), "/usr/") {
			return nil, img, fmt.Errorf("/%s is neither a directory nor a link into /usr; use a rootfs:DIR or oci:DIR image", name)
		}
		t.link(name, target)
	}
	for _, name := range hostConfig {
		if err := t.copyIn(h.root, "etc/"+name); err != nil {
			return nil, img, fmt.Errorf("copy /etc/%s: %w", name, err)
		}
	}
	h.addUsers(t)
	if err := h.addPackages(t); err != nil {
		return nil, img, err
	}
	h.addSources(t)
	for _, name := range localDirs {
		if slices.Contains(img.Views, strings.Split(name, "/")[0]) {
			h.hideSecrets(t, name)
		}
	}
	if dirs := h.programDirs(img.Views); len(dirs) > 0 {
		search := strings.Join(append([]string{systemPath}, dirs...), ":")
		img.Config.Env = []string{"PATH=" + search}
		t.file("etc/sudoers", 0o440, 0, sudoers(search))
		t.file("etc/profile", 0o644, 0, profile(dirs))
	}
	return t, img, nil
}

// isBelow reports whether path is dir or below it.
func isBelow(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// programDirs returns the folders of programs that do not come from the
// distribution's packages: the bin folder of each folder in /usr/local and
// /opt. The server's own PATH may lack them, because sudo resets it.
func (h host) programDirs(views []string) (dirs []string) {
	for _, dir := range []string{"usr/local/*/bin", "opt/*/bin"} {
		if !slices.Contains(views, strings.Split(dir, "/")[0]) {
			continue
		}
		found, _ := fs.Glob(h.root.FS(), dir) // the patterns are valid
		for _, name := range found {
			if h.isOpen(path.Dir(name)) && h.isOpen(name) && !strings.ContainsAny(name, "\"'\\$`\n:,= ") {
				dirs = append(dirs, "/"+name)
			}
		}
	}
	return dirs
}

// isOpen reports whether name is a folder that everybody may enter.
func (h host) isOpen(name string) bool {
	info, err := h.root.Lstat(name)
	return err == nil && info.IsDir() && info.Mode().Perm()&0o005 == 0o005
}

// hideSecrets hides files and folders below dir that are not world-readable,
// since root in a machine could read them.
func (h host) hideSecrets(t *tree, dir string) {
	f, err := h.root.Open(dir)
	if err != nil {
		return // the folder is missing
	}
	names, _ := f.Readdirnames(-1) // a folder that cannot be listed cannot be opened either
	defer func() { _ = f.Close() }()
	for _, n := range names {
		name := path.Join(dir, n)
		var st unix.Stat_t
		if unix.Fstatat(int(f.Fd()), n, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // removed meanwhile
		}
		switch kind := st.Mode & unix.S_IFMT; {
		case kind == unix.S_IFLNK:
		case kind == unix.S_IFDIR && st.Mode&0o005 == 0o005:
			h.hideSecrets(t, name)
		case kind == unix.S_IFDIR || st.Mode&0o004 == 0:
			t.hide(h.root, name)
		}
	}
}

// mountsBelow returns bind mounts for the file systems mounted below dir, since the
// view of dir does not include them.
func mountsBelow(mountinfo, dir string) []Bind {
	var out []Bind
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if path := unescape(fields[4]); strings.HasPrefix(path, dir+"/") {
			out = append(out, Bind{Source: path, Target: path})
		}
	}
	return out
}

// unescape decodes the octal escapes of a path in mountinfo.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}
