package gateway_test

import (
	"bytes"
	"strings"
	"testing"

	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
)

// rawPush sends a pack that git would not create, and returns the answer.
func (m *machine) rawPush(t *testing.T, url, old, id string, objects ...string) string {
	t.Helper()
	cmd := gittest.Command(t, m.dir+"/r", "pack-objects", "--stdout", "--quiet")
	cmd.Stdin = strings.NewReader(strings.Join(objects, "\n") + "\n")
	pack, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	path, err := gateway.PathOf(url)
	if err != nil {
		t.Fatal(err)
	}
	line := old + " " + id + " refs/heads/" + branch + "\x00report-status side-band-64k agent=x"
	body := bytes.NewBufferString(pktLine(line) + "0000")
	body.Write(pack)
	_, text := m.do("POST", path+"/git-receive-pack", "", body)
	return text
}

func pktLine(s string) string {
	const digits = "0123456789abcdef"
	n := len(s) + 4
	return string([]byte{digits[n>>12&15], digits[n>>8&15], digits[n>>4&15], digits[n&15]}) + s
}

// TestMirrorsCarryNothingBetweenMachines checks that extra objects in a push do
// not enter the mirror, and that objects on no branch are served to nobody,
// neither by a fetch nor by a push that refers to them.
func TestMirrorsCarryNothingBetweenMachines(t *testing.T) {
	w := newWorld(t)
	m, url := checkedOut(t, w)
	zero := strings.Repeat("0", 40)
	id := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	cmd := gittest.Command(t, m.dir+"/r", "hash-object", "-w", "--stdin")
	cmd.Stdin = strings.NewReader(noise(100_000))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	extra := strings.TrimSpace(string(out))
	blob, tree := m.git("r", "rev-parse", "HEAD:b.txt"), m.git("r", "rev-parse", "HEAD^{tree}")
	if got := m.rawPush(t, url, zero, id, id, tree, blob, extra); !strings.Contains(got, "unpack ok") || w.Branch("r", branch) != id {
		t.Fatalf("push: %q", got)
	}
	if objects := mirrorObjects(t, w); strings.Contains(objects, extra) || !strings.Contains(objects, blob) {
		t.Errorf("the mirror holds\n%s", objects)
	}
	// Was once on a branch and is still in the mirror.
	secret := w.Commit("r", "gone", "secret", map[string]string{"secret.txt": "secret\n"})
	if _, err := w.gw.Check(t.Context(), url, ""); err != nil {
		t.Fatal(err)
	}
	hidden := gittest.Git(t, w.Path("r"), "rev-parse", secret+":secret.txt")
	gittest.Git(t, w.Path("r"), "branch", "-D", "gone")
	if err := w.gw.Close(); err != nil { // forget that the branch was advertised recently
		t.Fatal(err)
	}
	w.open(t)
	if _, err := w.gw.Check(t.Context(), url, ""); err != nil {
		t.Fatal(err)
	}
	other := w.machine(t, oneRepo(url, branch))
	other.git("", "clone", "--quiet", url, "r")
	for _, version := range []string{"0", "2"} {
		other.fails("r", []string{"-c", "protocol.version=" + version, "fetch", "origin", secret})
		other.fails("r", []string{"-c", "protocol.version=" + version, "fetch", "origin", hidden})
	}
	for _, have := range []string{id, blob} { // objects on a branch can also be fetched by id
		other.git("", "init", "--quiet", "x"+have[:4])
		other.git("x"+have[:4], "fetch", "--quiet", url, have)
	}
	// A commit that refers to the object without containing it.
	grown := gittest.Command(t, other.dir+"/r", "mktree", "--missing")
	grown.Stdin = strings.NewReader("100644 blob " + hidden + "\tstolen\n")
	if out, err = grown.Output(); err != nil {
		t.Fatal(err)
	}
	stolen := strings.TrimSpace(string(out))
	commit := gittest.Git(t, other.dir+"/r", "commit-tree", "-p", id, "-m", "steal", stolen)
	if got := other.rawPush(t, url, id, commit, commit, stolen); !strings.Contains(got, "missing necessary objects") {
		t.Errorf("a push of what it does not hold: %q", got)
	}
	// Referring to an object that is on a branch is allowed.
	grown = gittest.Command(t, other.dir+"/r", "mktree", "--missing")
	grown.Stdin = strings.NewReader("100644 blob " + gittest.Git(t, w.Path("r"), "rev-parse", "main:a.txt") + "\tagain\n")
	if out, err = grown.Output(); err != nil {
		t.Fatal(err)
	}
	again := strings.TrimSpace(string(out))
	commit = gittest.Git(t, other.dir+"/r", "commit-tree", "-p", id, "-m", "again", again)
	if got := other.rawPush(t, url, id, commit, commit, again); !strings.Contains(got, "unpack ok") || w.Branch("r", branch) != commit {
		t.Errorf("a push of what is there: %q", got)
	}
}
