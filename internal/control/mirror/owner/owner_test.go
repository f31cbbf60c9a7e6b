package owner

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"aloft/internal/control/confine"
	"aloft/internal/need"
)

// server is the user id of a server that is not root. stranger is the user id of a
// user who is neither the server nor confined.
const server, stranger = 12345, 23456

// folder returns a folder of the server.
func folder(t *testing.T) *os.Root {
	t.Helper()
	need.Root(t)
	dir := t.TempDir()
	if err := os.Chown(dir, server, server); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// ownerOf returns the user and the group of a file below root.
func ownerOf(t *testing.T, root *os.Root, path string) (uid, gid int) {
	t.Helper()
	info, err := root.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid)
}

// operations are the functions of a Server.
var operations = map[string]func(*os.Root) error{
	"Share":    func(r *os.Root) error { return Server(server).Share(r, confine.FirstUser) },
	"Tidy":     func(r *os.Root) error { return Server(server).Tidy(r, confine.FirstUser) },
	"TakeBack": Server(server).TakeBack,
	"Empty":    Server(server).Empty,
}

// TestFollowsNoLink checks that if a folder of the server has become a link, no
// function changes a file outside of the root.
func TestFollowsNoLink(t *testing.T) {
	for name, do := range operations {
		t.Run(name, func(t *testing.T) {
			root, outside := folder(t), folder(t)
			if err := outside.WriteFile("file", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := outside.Lchown("file", server, server); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside.Name(), filepath.Join(root.Name(), "objects")); err != nil {
				t.Fatal(err)
			}
			_ = do(root) // the function may refuse
			for _, path := range []string{".", "file"} {
				if uid, gid := ownerOf(t, outside, path); uid != server || gid != server {
					t.Errorf("%s outside belongs to %d:%d", path, uid, gid)
				}
			}
		})
	}
}

// TestOthersFiles checks that the functions refuse a folder that does not belong to
// the server. They must not change files of a user who is neither the server nor
// confined, such as a hard link to a file elsewhere.
func TestOthersFiles(t *testing.T) {
	for name, do := range operations {
		t.Run(name, func(t *testing.T) {
			root := folder(t)
			if err := root.WriteFile("file", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := root.Lchown("file", stranger, stranger); err != nil {
				t.Fatal(err)
			}
			err := do(root)
			if name == "Tidy" || name == "TakeBack" {
				if err == nil {
					t.Error("no error for a file of somebody else")
				}
			}
			if name != "Empty" {
				if uid, _ := ownerOf(t, root, "file"); uid != stranger {
					t.Errorf("the file belongs to %d", uid)
				}
			}
			if err := root.Lchown(".", 0, 0); err != nil {
				t.Fatal(err)
			}
			if err := do(root); err == nil {
				t.Error("no error for a folder of root")
			}
			if uid, gid := ownerOf(t, root, "."); uid != 0 || gid != 0 {
				t.Errorf("root's folder belongs to %d:%d", uid, gid)
			}
		})
	}
}

// TestModesOfOthersFiles checks that Tidy does not change the mode of files and folders
// of a user who is neither the server nor confined.
func TestModesOfOthersFiles(t *testing.T) {
	root := folder(t)
	if err := root.WriteFile("HEAD", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := root.Mkdir("objects", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"HEAD", "objects"} {
		if err := root.Lchown(path, stranger, stranger); err != nil {
			t.Fatal(err)
		}
		if err := Server(server).Tidy(root, confine.FirstUser); err == nil {
			t.Errorf("%s: no error", path)
		}
		if info, err := root.Lstat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: the mode is %v, %v", path, info.Mode(), err)
		}
		if err := root.Lchown(path, server, server); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRoundTrip checks the owners after a folder was shared, used and taken back.
func TestRoundTrip(t *testing.T) {
	root := folder(t)
	if err := operations["Share"](root); err != nil {
		t.Fatal(err)
	}
	if uid, gid := ownerOf(t, root, "."); uid != server || gid != confine.FirstUser {
		t.Errorf("the shared folder belongs to %d:%d", uid, gid)
	}
	if info, err := root.Stat("."); err != nil || info.Mode().Perm() != 0o770 || info.Mode()&os.ModeSticky == 0 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if err := root.MkdirAll("a/b", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a", "a/b"} {
		if err := root.Lchown(path, confine.FirstUser, confine.FirstUser); err != nil {
			t.Fatal(err)
		}
	}
	if err := operations["TakeBack"](root); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{".", "a", "a/b"} {
		if uid, gid := ownerOf(t, root, path); uid != server || gid != server {
			t.Errorf("%s belongs to %d:%d", path, uid, gid)
		}
	}
	if err := operations["Empty"](root); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Lstat("a"); !os.IsNotExist(err) {
		t.Errorf("a is left: %v", err)
	}
}
