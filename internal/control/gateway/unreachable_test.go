package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
)

// rawPush sends a pack that git would not create, and returns the reply.
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
// not enter the mirror. No machine may get an object that is on no branch,
// neither by a fetch nor by a push that refers to the object.
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
	// This commit was once on a branch and is still in the mirror.
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
	// The machine can neither learn the size of an object nor find out its lines
	// by using it as a list of path patterns.
	fetch := pkt("command=fetch\n") + "0001" + pkt("want "+id+"\n")
	for request, want := range map[string]string{
		pkt("command=object-info\n") + "0001" + pkt("size\n") + pkt("oid "+hidden+"\n") + "0000":          hidden,
		fetch + pkt("filter sparse:oid="+hidden+"\n") + pkt("done\n") + "0000":                            "filter",
		fetch + pkt("filter combine:sparse%3aoid%3d"+hidden+"+blob:limit%3d1\n") + pkt("done\n") + "0000": "filter",
	} {
		if got := other.post(t, url, request); !strings.Contains(got, want) || strings.Contains(got, "PACK") || strings.Contains(got, hidden+" 7") {
			t.Errorf("%q: %q", request, got)
		}
	}
	if got := other.post(t, url, pkt("command=object-info\n")+"0001"+pkt("size\n")+pkt("oid "+blob+"\n")+"0000"); !strings.Contains(got, blob+" 4") {
		t.Errorf("the size of a file on a branch: %q", got)
	}
	for _, have := range []string{id, blob} { // objects on a branch can also be fetched by id
		other.git("", "init", "--quiet", "x"+have[:4])
		other.git("x"+have[:4], "fetch", "--quiet", url, have)
	}
	// This commit refers to the object without containing it.
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

func pkt(line string) string { return fmt.Sprintf("%04x%s", len(line)+4, line) }

// post sends a fetch request of protocol 2 and returns the reply.
func (m *machine) post(t *testing.T, url, request string) string {
	t.Helper()
	path, err := gateway.PathOf(url)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.addr+path+"/git-upload-pack", strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+m.credential)
	req.Header.Set("Git-Protocol", "version=2")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// A credential that somebody has read in a transcript does not work in another
// agent's machine.
func TestCredentialOfAnotherAgent(t *testing.T) {
	w := newWorld(t)
	m, url := checkedOut(t, w)
	for agentID, want := range map[string]bool{"bc-1": true, "bc-2": false, "": false} {
		server := httptest.NewServer(gateway.Of(w.gw, agentID))
		t.Cleanup(server.Close)
		here := &machine{t, t.TempDir(), m.credential, server.URL}
		out, err := here.try("", "ls-remote", url)
		if ok := err == nil; ok != want || !ok && !strings.Contains(out, "Authentication failed") && !strings.Contains(out, "could not read Username") {
			t.Errorf("in a machine of %q: %v\n%s", agentID, err, out)
		}
	}
}
