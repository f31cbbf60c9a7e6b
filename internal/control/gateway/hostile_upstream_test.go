package gateway_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/fault"
)

// TestUpstreamThatIsTooLarge checks that endless data from an upstream does not
// fill the disk.
func TestUpstreamThatIsTooLarge(t *testing.T) {
	w := newWorld(t, func(w *world) { w.cfg.MaxMirror = 1 << 20 })
	url := w.Repo("r", map[string]string{"a": "a"})
	if _, err := w.gw.Check(t.Context(), url, ""); err != nil {
		t.Fatal(err)
	}
	w.Commit("r", "main", "large", map[string]string{"noise": noise(5 << 20)})
	_, err := w.gw.Check(t.Context(), url, "")
	if f := fault.Of(err); f.Code != "disk_full" || !strings.Contains(f.Message, "larger than this server's limit of 1 MiB") {
		t.Errorf("check: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(w.cfg.Dir, "mirrors", "*", "objects", "pack", "tmp_*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left of it: %v, %v", left, err)
	}
}

// TestCommitThatIsTooLarge checks that endless data does not fill the disk when
// a commit is requested by its id.
func TestCommitThatIsTooLarge(t *testing.T) {
	w := newWorld(t, func(w *world) { w.cfg.MaxMirror = 1 << 20 })
	url := w.Repo("r", map[string]string{"a": "a"})
	gittest.Git(t, w.Path("r"), "config", "uploadpack.allowAnySHA1InWant", "true")
	id := w.Commit("r", "large", "large", map[string]string{"noise": noise(5 << 20)})
	gittest.Git(t, w.Path("r"), "update-ref", "refs/pull/1/head", id)
	gittest.Git(t, w.Path("r"), "update-ref", "-d", "refs/heads/large")
	_, err := w.gw.Check(t.Context(), url, id)
	if f := fault.Of(err); f.Code != "disk_full" || !strings.Contains(f.Message, "larger than this server's limit of 1 MiB") {
		t.Errorf("check: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(w.cfg.Dir, "mirrors", "*", "objects", "pack", "tmp_*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left of it: %v, %v", left, err)
	}
}

// TestUpstreamIsChecked checks that malformed objects from an upstream are
// refused, except for harmless mistakes of old tools.
func TestUpstreamIsChecked(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a": "a"})
	object := func(kind, text string) string {
		t.Helper()
		cmd := gittest.Command(t, w.Path("r"), "hash-object", "-w", "--literally", "-t", kind, "--stdin")
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	empty := object("tree", "")
	slip := object("commit", "tree "+empty+"\nauthor a <a@b> 1 +051800\ncommitter a <a@b> 01 +0000\n\nslip\n")
	gittest.Git(t, w.Path("r"), "update-ref", "refs/heads/slip", slip)
	if got, err := w.gw.Check(t.Context(), url, "slip"); err != nil || got.Commit != slip {
		t.Errorf("a slip: %+v, %v", got, err)
	}
	blob := object("blob", "x")
	raw := make([]byte, 20)
	for i := range raw {
		raw[i] = hexByte(blob[2*i])<<4 | hexByte(blob[2*i+1])
	}
	dotgit := object("tree", "100644 .git\x00"+string(raw))
	evil := object("commit", "tree "+dotgit+"\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nevil\n")
	gittest.Git(t, w.Path("r"), "update-ref", "refs/heads/evil", evil)
	if got, err := w.gw.Check(t.Context(), url, "evil"); err == nil {
		t.Errorf("a tree with .git in it: %+v", got)
	}
}

func hexByte(c byte) byte { return byte(strings.IndexByte("0123456789abcdef", c)) }

// TestUpstreamWithTooManyRefs checks that a fetch from a server with too many
// refs is stopped before git writes the refs.
func TestUpstreamWithTooManyRefs(t *testing.T) {
	w := newWorld(t, func(w *world) { w.cfg.MaxRefs = 50 })
	url := w.Repo("r", map[string]string{"a": "a"})
	for i := range 49 {
		gittest.Git(t, w.Path("r"), "branch", fmt.Sprintf("b%d", i), "main")
	}
	if _, err := w.gw.Check(t.Context(), url, ""); err != nil {
		t.Fatalf("at the limit: %v", err)
	}
	const more = 2000
	var list strings.Builder
	id := w.Branch("r", "main")
	for i := range more {
		fmt.Fprintf(&list, "create refs/tags/t%d %s\n", i, id)
	}
	cmd := gittest.Command(t, w.Path("r"), "update-ref", "--stdin")
	cmd.Stdin = strings.NewReader(list.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, err := w.gw.Check(t.Context(), url, "")
	if f := fault.Of(err); f.Kind != fault.KindExhausted || !strings.Contains(f.Message, "more than 50 branches and tags") {
		t.Errorf("above the limit: %v", err)
	}
	written, err := filepath.Glob(filepath.Join(w.cfg.Dir, "mirrors", "*", "refs", "tags", "*"))
	if err != nil || len(written) > 0 {
		t.Errorf("%d refs were written, %v", len(written), err)
	}
}
