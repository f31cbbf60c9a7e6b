package gateway_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

const large = "a large file\n"

// largeFiles creates a repository with one large file, and a machine whose
// clone contains only the pointer to that file.
func largeFiles(t *testing.T, w *world, grant func(url string) gateway.Grant) (*machine, *gittest.LFS) {
	t.Helper()
	need.Command(t, "git-lfs")
	t.Setenv("GIT_LFS_SKIP_SMUDGE", "1")
	store := w.LFS()
	url := w.Repo("r", map[string]string{".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "a.bin": store.Put(large)})
	m := w.machine(t, grant(url))
	m.git("", "clone", "--quiet", "--no-checkout", url, "r")
	m.git("r", "lfs", "install", "--local")
	m.git("r", "config", "lfs.transfer.maxretries", "1")
	m.git("r", "checkout", "--quiet", "-B", branch)
	return m, store
}

func mayPush(url string) gateway.Grant { return oneRepo(url, branch) }

func (m *machine) read(name string) string {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(data)
}

// TestLargeFiles downloads and uploads large files with the real git-lfs. The
// machine must see neither the forge's nor the object server's credential.
func TestLargeFiles(t *testing.T) {
	w := newWorld(t, withCredential)
	m, store := largeFiles(t, w, mayPush)
	if got := m.read("r/a.bin"); !strings.HasPrefix(got, "version https://git-lfs") {
		t.Fatalf("before the pull the file holds %q", got)
	}
	t.Setenv("GIT_CURL_VERBOSE", "1")
	t.Setenv("GIT_TRACE", "1")
	said := m.git("r", "lfs", "pull")
	if got := m.read("r/a.bin"); got != large {
		t.Errorf("after the pull the file holds %q", got)
	}
	mine := strings.Repeat("mine ", 100_000)
	m.commit("r", "a large file of mine", map[string]string{"b.bin": mine})
	said += m.git("r", "push", "origin", branch)
	if !store.Has(mine) {
		t.Errorf("the storage does not have what was pushed:\n%s", said)
	}
	if got := w.Branch("r", branch); got == "" {
		t.Error("the branch was not pushed")
	}
	for _, secret := range []string{store.Token(), store.Storage, token} {
		if strings.Contains(said, secret) || strings.Contains(w.log.String(), secret) {
			t.Errorf("%s came out", secret)
		}
	}
	if !strings.Contains(w.log.String(), "git lfs upload") {
		t.Error("the log does not tell of the upload")
	}
	leftInQuarantine(t, w)
}

func TestLargeFilesRefused(t *testing.T) {
	t.Run("NoRightToPush", func(t *testing.T) {
		w := newWorld(t)
		m, store := largeFiles(t, w, func(url string) gateway.Grant { return gateway.Grant{Repos: []string{url}} })
		m.commit("r", "mine", map[string]string{"b.bin": "mine"})
		m.fails("r", []string{"lfs", "push", "origin", "HEAD"})
		if store.Has("mine") {
			t.Error("it was uploaded")
		}
	})
	t.Run("Secret", func(t *testing.T) {
		w := newWorld(t)
		m, store := largeFiles(t, w, func(url string) gateway.Grant {
			g := mayPush(url)
			withSecret(&g)
			return g
		})
		mine := "begin " + deployKey + " end"
		m.commit("r", "mine", map[string]string{"b.bin": mine})
		out := m.fails("r", []string{"lfs", "push", "origin", "HEAD"}, "(secret in push)")
		if store.Has(mine) || strings.Contains(out, deployKey) {
			t.Errorf("it came out: %s", out)
		}
	})
	t.Run("TooLarge", func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.cfg.MaxPack = 1 << 10 })
		m, _ := largeFiles(t, w, mayPush)
		m.commit("r", "mine", map[string]string{"b.bin": strings.Repeat("mine", 1000)})
		m.fails("r", []string{"lfs", "push", "origin", "HEAD"}, "this server accepts at most 1024")
	})
	t.Run("DiskNearlyFull", func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.cfg.Room = func() error { return errors.New("the disk is nearly full") } })
		m, store := largeFiles(t, w, mayPush)
		small, large := "small", noise(2<<20)
		m.commit("r", "mine", map[string]string{"b.bin": small, "c.bin": large})
		m.fails("r", []string{"lfs", "push", "origin", "HEAD"}, "the server's disk is nearly full")
		if store.Has(large) || !store.Has(small) {
			t.Errorf("uploaded: large %v, small %v", store.Has(large), store.Has(small))
		}
	})
	t.Run("Address", func(t *testing.T) {
		w := newWorld(t)
		m, store := largeFiles(t, w, mayPush)
		for _, href := range []string{"http://169.254.169.254/latest/meta-data", "http://localhost:1/x", "http://[::1]:1/", "http://10.0.0.1/", "file:///etc/passwd", "gopher://x/"} {
			store.SetHref(href)
			m.fails("r", []string{"lfs", "pull"})
			if got := m.read("r/a.bin"); !strings.HasPrefix(got, "version https://git-lfs") {
				t.Errorf("%s: the file holds %q", href, got)
			}
		}
		if !strings.Contains(w.log.String(), "not on a public network") {
			t.Error("the log does not say why")
		}
	})
	t.Run("OperatorsHost", func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.cfg.LFSHosts = []string{"localhost"} })
		m, store := largeFiles(t, w, mayPush)
		sum := sha256.Sum256([]byte(large))
		store.SetHref(strings.Replace(store.Storage, "127.0.0.1", "localhost", 1) + "/" + hex.EncodeToString(sum[:]))
		m.git("r", "lfs", "pull")
		if got := m.read("r/a.bin"); got != large {
			t.Errorf("the file holds %q", got)
		}
	})
	t.Run("OtherContents", func(t *testing.T) {
		w := newWorld(t)
		m, store := largeFiles(t, w, mayPush)
		sum := sha256.Sum256([]byte("mine"))
		path := strings.TrimPrefix(w.URL, "http://")
		status, said := m.do(http.MethodPut, fmt.Sprintf("/http/%s/r.git/info/lfs/objects/%x?size=4", path, sum), "", strings.NewReader("evil"))
		if status != http.StatusBadRequest || store.Has("evil") {
			t.Errorf("got %d %s", status, said)
		}
	})
	t.Run("OtherRepository", func(t *testing.T) {
		w := newWorld(t)
		m, _ := largeFiles(t, w, mayPush)
		path := strings.TrimPrefix(w.URL, "http://")
		status, said := m.do(http.MethodPost, "/http/"+path+"/other.git/info/lfs/objects/batch", "", strings.NewReader(`{"operation":"download","objects":[]}`))
		if status != http.StatusForbidden {
			t.Errorf("got %d %s", status, said)
		}
	})
}
