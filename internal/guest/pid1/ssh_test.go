package pid1

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestDialOwned(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	uid := uint32(os.Getuid())
	conn, err := dialOwned(t.Context(), path, uid)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := dialOwned(t.Context(), path, uid+1); err == nil {
		t.Error("a socket of another user's is taken")
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := dialOwned(t.Context(), link, uid); err == nil {
		t.Error("a link is followed")
	}
}
