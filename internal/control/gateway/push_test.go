package gateway_test

import "testing"

func TestCloneAndPush(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	m := w.machine(t, oneRepo(url, "aloft/x"))
	m.git("", "clone", url, "r")
	m.git("r", "checkout", "-b", "aloft/x")
	id := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", "aloft/x")
	if got := w.Branch("r", "aloft/x"); got != id {
		t.Fatalf("upstream has %q, want %s\n%s", got, id, w.log)
	}
}
