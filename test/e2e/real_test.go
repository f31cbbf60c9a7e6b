package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// helloScript is ten steps on GNU hello: look, search, read, build, edit two
// files, test, look again, commit, finish.
const helloScript = `
scripts:
  - turns:
      - text: I look at what is here.
        calls:
          - {tool: Shell, args: {command: "git log --oneline | head -3; ls; cat debian/control | head -20"}}
          - {tool: Glob, args: {glob_pattern: "*.c", target_directory: src}}
      - calls:
          - {tool: Grep, args: {pattern: "Hello, world", path: ".", glob: "{src,tests}/*", "-A": 1}}
      - calls:
          - {tool: Read, args: {path: src/hello.c, offset: 45, limit: 30}}
          - {tool: Read, args: {path: tests/hello-1}}
      - text: I build it as it is.
        calls:
          - tool: TodoWrite
            args:
              merge: false
              todos:
                - {id: "1", content: build, status: in_progress}
                - {id: "2", content: change the greeting, status: pending}
          - tool: Shell
            args:
              # a clone has no times of files that make could go by
              command: "touch aclocal.m4 && touch configure config.in && find . -name Makefile.in -exec touch {} + && touch doc/version.texi doc/stamp-vti doc/*.info && ./configure -q --disable-nls >/dev/null 2>&1; make -s >/dev/null 2>&1; ./hello"
              timeout: 300000
      - calls:
          - {tool: StrReplace, args: {path: src/hello.c, old_string: '_("Hello, world!")', new_string: '_("Hello, Aloft!")'}}
      - calls:
          - {tool: StrReplace, args: {path: tests/hello-1, old_string: "Hello, world!", new_string: "Hello, Aloft!"}}
      - text: The project's own tests.
        calls:
          - {tool: Shell, args: {command: "make -s >/dev/null 2>&1; make check-TESTS 2>/dev/null | grep -E '^(# |PASS|FAIL|SKIP)'; ./hello", timeout: 300000}}
      - calls:
          - {tool: Grep, args: {pattern: "Hello, (world|Aloft)", path: src, output_mode: count}}
      - calls:
          - {tool: Shell, args: {command: "git commit -qm 'Greet Aloft' src tests && git checkout -q . && git clean -fdxq && git status --short"}}
      - text: |
          The greeting is changed.
`

// An agent builds and tests a Debian source package with its own tools.
func TestDebianSource(t *testing.T) {
	t.Parallel()
	need.Root(t)
	dir := t.TempDir()
	if out, err := exec.Command("../../hack/debian-source.sh", "hello", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(dir, "hello-*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no source in %s (%v)", dir, err)
	}
	git := gittest.New(t)
	url := git.Empty("hello")
	tree := found[0]
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-Af", "."}, {"commit", "-qm", "The source as Debian has it"}, {"push", "-q", url, "main"},
	} {
		gittest.Git(t, tree, args...)
	}
	before := git.Branch("hello", "main")

	a := start(t, scripted(t, helloScript))
	r := a.finish(a.create(url, "Make hello greet Aloft", nil))
	branch := pushed(t, r)
	if diff := gittest.Git(t, git.Path("hello"), "diff", "--stat", "main.."+branch); !strings.Contains(diff, "src/hello.c") || !strings.Contains(diff, "tests/hello-1") || !strings.Contains(diff, "2 files changed") {
		t.Errorf("the branch changes\n%s", diff)
	}
	events := a.events(r.AgentID)
	// hello has five tests, one of which is skipped unless the moon is full.
	for _, want := range []string{"PASS: tests/hello-1", "# TOTAL: 5", "# FAIL:  0", "# ERROR: 0", "Hello, Aloft!"} {
		if !strings.Contains(events, want) {
			t.Fatalf("nothing in the run says %q\n%s", want, events)
		}
	}
	if git.Branch("hello", "main") != before {
		t.Error("main has moved")
	}
}

// ownScript is ten steps on Aloft's own repository.
const ownScript = `
scripts:
  - turns:
      - text: I look at the map.
        calls:
          - {tool: Read, args: {path: ARCHITECTURE.md, limit: 40}}
          - {tool: Glob, args: {glob_pattern: "*_test.go", target_directory: internal/agent}}
      - calls:
          - {tool: Grep, args: {pattern: "func NameFrom", type: go, "-A": 12}}
      - calls:
          - {tool: Read, args: {path: internal/agent/agent.go, offset: -40}}
      - calls:
          - {tool: Shell, args: {command: "export GOFLAGS=-mod=mod GOPROXY=off GOCACHE=/tmp/gocache; go version; git log --oneline | wc -l; cat go.mod | head -3"}}
      - text: I change the name of an agent that has none, and say so in the changelog.
        calls:
          - {tool: StrReplace, args: {path: internal/agent/agent.go, old_string: '"Untitled"', new_string: '"Nameless"'}}
      - calls:
          - {tool: StrReplace, args: {path: CHANGELOG.md, old_string: "## Unreleased\n", new_string: "## Unreleased\n\n- An agent without a name is called Nameless.\n"}}
      - text: A test of the standard library alone, since modules cannot be fetched here.
        calls:
          - {tool: Shell, args: {command: "gofmt -l internal/agent; go vet ./internal/fault && go test ./internal/fault ./internal/account 2>&1 | tail -5", timeout: 600000}}
      - calls:
          - {tool: Grep, args: {pattern: "Nameless", output_mode: files_with_matches}}
      - calls:
          - {tool: Shell, args: {command: "git diff --stat && git commit -qam 'agent: call the nameless so' && git log --oneline -1"}}
      - text: The name is changed in two files.
`

// An agent works on Aloft's own repository, at its current commit.
func TestOwnRepository(t *testing.T) {
	t.Parallel()
	need.Root(t)
	git := gittest.New(t)
	out, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Fatalf("Aloft's repository: %v", err)
	}
	top := strings.TrimSpace(string(out))
	gittest.Git(t, git.Dir, "-c", "safe.directory=*", "clone", "-q", "--bare", top, git.Path("aloft"))
	gittest.Git(t, git.Path("aloft"), "config", "http.receivepack", "true")
	head := gittest.Git(t, git.Path("aloft"), "rev-parse", "HEAD")
	gittest.Git(t, git.Path("aloft"), "branch", "-f", "main", head)
	gittest.Git(t, git.Path("aloft"), "symbolic-ref", "HEAD", "refs/heads/main")

	a := start(t, scripted(t, ownScript))
	r := a.finish(a.create(git.URL+"/aloft.git", "Call the nameless so", nil))
	branch := pushed(t, r)
	if diff := gittest.Git(t, git.Path("aloft"), "diff", "--stat", "main.."+branch); !strings.Contains(diff, "2 files changed") {
		t.Errorf("the branch changes\n%s", diff)
	}
	if git.Branch("aloft", "main") != head {
		t.Error("main has moved")
	}
}

// pushed returns the branch that the run has pushed. It fails unless there is
// exactly one.
func pushed(t *testing.T, r run) string {
	t.Helper()
	if len(r.Git.Branches) != 1 || !strings.HasPrefix(r.Git.Branches[0].Branch, "aloft/") {
		t.Fatalf("branches %+v", r.Git.Branches)
	}
	return r.Git.Branches[0].Branch
}
