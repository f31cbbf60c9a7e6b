package gateway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/fault"
)

// standInSSH is a program that replaces ssh. It runs the command on this host,
// in the folder of the repositories, and logs its arguments.
const standInSSH = `#!/bin/sh
echo "$GIT_PROTOCOL $*" >>LOG
case " $* " in *" -G "*) exit 1 ;; esac
for command; do :; done
case "$command" in *missing*) echo "fatal: repository not found" >&2; exit 1 ;; esac
cd REPOS && eval "$(echo "$command" | sed "s, '/, './,")"
`

// TestSSH fetches and pushes with a stand-in for ssh.
func TestSSH(t *testing.T) {
	bin := t.TempDir()
	log := filepath.Join(bin, "log")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	w := newWorld(t)
	w.Repo("r", map[string]string{"a.txt": "one\n"})
	text := strings.NewReplacer("LOG", log, "REPOS", w.Dir).Replace(standInSSH)
	gittest.Write(t, bin, map[string]string{"ssh": text})
	if err := os.Chmod(filepath.Join(bin, "ssh"), 0o755); err != nil {
		t.Fatal(err)
	}
	const url = "ssh://git@forge.example:2222/r.git"
	m := w.machine(t, oneRepo(url, branch))
	m.git("", "clone", "--quiet", url, "r")
	m.git("r", "checkout", "--quiet", "-b", branch)
	id := m.commit("r", "two", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "--quiet", "origin", branch)
	if got := w.Branch("r", branch); got != id {
		t.Errorf("the upstream has %s, want %s", got, id)
	}
	said, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"version=2 -o BatchMode=yes", "-p 2222 ", "git@forge.example git-upload-pack '/r.git'", "git@forge.example git-receive-pack '/r.git'"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("ssh was not started with %q:\n%s", want, said)
		}
	}
	if _, err := w.gw.Check(t.Context(), "ssh://git@forge.example/missing.git", ""); fault.Of(err).Code != "repo_not_found" {
		t.Errorf("a missing repository: %v", err)
	}
}
