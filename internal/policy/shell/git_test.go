package shell

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGit checks in which folders a command line runs git, according to the
// analysis.
func TestGit(t *testing.T) {
	list := Compile([]string{"git", "cd", "ls", "find", "xargs", "git -C other status", "git --git-dir=x status", "bash"})
	at := func(folders ...string) *Git { return &Git{Folders: folders} }
	elsewhere := func(folders ...string) *Git { return &Git{Folders: folders, Elsewhere: true} }
	for line, want := range map[string]*Git{
		"ls":                                    nil,
		"cd sub; ls":                            nil,
		"git status":                            at(),
		"/usr/bin/git status":                   at(),
		"git status; cd sub && git diff":        at("sub"),
		"cd a && (cd ../b; git log)":            at("a", "../b"),
		"cd 'a b' && command git log":           at("a b"),
		"cd -- a && timeout 5 git log":          at("a"),
		"cd -P /a && ls $(git status)":          at("/a"),
		"if cd a; then env git log; fi":         at("a"),
		"bash -c 'cd a; git log'":               at("a"),
		"cd; git log":                           elsewhere(),
		"cd - && git log":                       elsewhere(),
		"cd ~/x && git log":                     elsewhere(),
		"cd \"$X\" && git log":                  elsewhere(),
		"cd a* && git log":                      elsewhere(),
		"cd a b && git log":                     elsewhere(),
		"find . -execdir git status ';'":        elsewhere(),
		"git -C other status":                   at("other"),
		"git --git-dir=x status":                elsewhere(),
		"ls | xargs git log":                    at(),
		"for d in a b; do cd $d; git log; done": elsewhere(),
	} {
		if diff := cmp.Diff(want, list.Judge(line).Git); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}
