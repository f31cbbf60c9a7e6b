package image

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// prepareRootfs returns an image whose root is a tree on disk. Nothing writes
// to the tree.
func (s *Store) prepareRootfs(ctx context.Context, dir string) (Image, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return Image{}, err
	}
	if !info.IsDir() {
		return Image{}, fmt.Errorf("%s is not a directory", dir)
	}
	img, err := s.amend(ctx, []string{dir})
	img.Pinned = "rootfs:" + dir
	return img, err
}

// amend adds a generated layer above an image's own layers. The layer contains
// files that a machine needs and the image may lack.
func (s *Store) amend(ctx context.Context, lower []string) (Image, error) {
	bundle, err := hostBundle()
	if err != nil {
		return Image{}, err
	}
	t, err := additions(view(lower), bundle)
	if err != nil {
		return Image{}, err
	}
	top, err := s.generate(ctx, t)
	if err != nil {
		return Image{}, err
	}
	return Image{Lower: append([]string{top}, lower...)}, nil
}

// additions returns the tree of the layer above v.
func additions(v view, bundle []byte) (*tree, error) {
	if _, info := v.lookup(v.resolve("bin/sh")); info == nil {
		return nil, fmt.Errorf("it has no /bin/sh: machines need a shell")
	}
	t := &tree{}
	for _, d := range []string{"dev", "proc", "run", "sys", "root", "var"} {
		if _, info := v.lookup(d); info == nil {
			t.dir(d, 0o755, 0)
		}
	}
	if _, info := v.lookup("tmp"); info == nil {
		t.dir("tmp", 0o777|fs.ModeSticky, 0)
	}
	if err := addUser(t, v); err != nil {
		return nil, err
	}
	addSudo(t, v)
	t.file(v.resolve("etc/hostname"), 0o644, 0, lines(hostName))
	t.file("etc/hosts", 0o644, 0, lines("127.0.0.1 localhost "+hostName, "::1 localhost ip6-localhost ip6-loopback"))
	t.file("etc/resolv.conf", 0o644, 0, nil)
	if bundle != nil {
		for _, p := range bundlePaths {
			p = v.resolve(p)
			if _, info := v.lookup(p); info != nil || p == v.resolve(bundlePath) {
				t.file(p, 0o644, 0, bundle)
			}
		}
	}
	likeBelow(t, v)
	return t, nil
}

// addUser adds the user ubuntu and the folders that it owns.
func addUser(t *tree, v view) error {
	accounts := string(v.read("etc/passwd"))
	if accounts == "" {
		accounts = "root:x:0:0:root:/root:/bin/sh\n"
	}
	shell := "/bin/bash"
	if _, info := v.lookup(v.resolve("bin/bash")); info == nil {
		shell = "/bin/sh"
	}
	if id, ok := findID(accounts, userName); !ok {
		line := fmt.Sprintf("%s:x:%d:%d:Ubuntu:/home/%s:%s", userName, userID, userID, userName, shell)
		t.file(v.resolve("etc/passwd"), 0o644, 0, []byte(insertID(accounts, line)))
		groups := string(v.read("etc/group"))
		if _, ok := findID(groups, userName); !ok {
			t.file(v.resolve("etc/group"), 0o644, 0, []byte(insertID(groups, groupLine)))
		}
		if hashes := string(v.read("etc/shadow")); hashes != "" {
			t.file(v.resolve("etc/shadow"), 0o640, 0, []byte(insertID(hashes, shadowLine)))
		}
	} else if id != userID {
		return fmt.Errorf("its user %s has uid %d, and machines need %d", userName, id, userID)
	}
	for _, d := range []string{"home/" + userName, "workspace", "opt/cursor/artifacts"} {
		t.dir(v.resolve(d), 0o755, userID)
	}
	for name, text := range map[string][]byte{".profile": userProfile, ".bashrc": userBashrc} {
		p := v.resolve("home/" + userName + "/" + name)
		if _, info := v.lookup(p); info == nil {
			t.file(p, 0o644, userID, text)
		}
	}
	return nil
}

// addSudo lets the user become root without a password, if the image has sudo.
func addSudo(t *tree, v view) {
	t.dir(v.resolve("etc/sudoers.d"), 0o750, 0)
	t.file(v.resolve("etc/sudoers.d")+"/90-aloft", 0o440, 0, lines(userSudo))
	if own := v.read("etc/sudoers"); own != nil && !strings.Contains(string(own), "includedir /etc/sudoers.d") {
		t.file(v.resolve("etc/sudoers"), 0o440, 0, append(append(own, '\n'), lines(userSudo)...))
	}
}

// likeBelow copies the mode and owner of the image's directories to those of t,
// because an overlay uses the attributes of the topmost layer.
func likeBelow(t *tree, v view) {
	for name, e := range t.entries {
		if !e.mode.IsDir() || e.id != 0 {
			continue
		}
		_, info := v.lookup(name)
		if info == nil || !info.IsDir() {
			continue
		}
		e.mode = info.Mode()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			e.id = int(st.Uid)
		}
		t.entries[name] = e
	}
}

// findID finds the numeric id of a name in a file like /etc/passwd.
func findID(file, name string) (id int, ok bool) {
	for line := range strings.Lines(file) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if fields[0] != name || len(fields) < 3 {
			continue
		}
		id, err := strconv.Atoi(fields[2])
		return id, err == nil
	}
	return 0, false
}

// insertID adds a line to a file like /etc/passwd, directly after root's line
// at the beginning. So if another line has the same id, programs show the name
// of the added line.
func insertID(file, line string) string {
	first, rest, _ := strings.Cut(file, "\n")
	if first == "" {
		return line + "\n" + rest
	}
	return first + "\n" + line + "\n" + rest
}
