package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// realProject is real software, from Debian's archive, with an environment.
type realProject struct {
	name, source string // the package
	upstream     bool   // as its authors publish it: Debian's patches are not applied
	environment  string
	test         string // command that the agent runs to test the project
	passed       string // regular expression that the tests' output must match
}

var realProjects = []realProject{
	{
		name: "c", source: "hello",
		// A clone does not preserve the times of generated files. Touch them, so that
		// make does not rebuild them: it would need help2man for the manual page.
		environment: `{
  "install": "touch aclocal.m4 && touch configure config.in && find . -name Makefile.in -exec touch {} + && touch doc/version.texi doc/stamp-vti doc/*.info\n./configure -q --disable-nls\nmake -s -k >/dev/null 2>&1 || test -x hello",
  "start": "test -x hello"
}`,
		test:   "make -s check-TESTS >~/checked 2>&1; grep -E '^# (PASS|FAIL)' ~/checked || tail -40 ~/checked",
		passed: `# PASS:  [1-9][0-9]*\\n# FAIL:  0`,
	},
	{
		name: "python", source: "docopt", upstream: true,
		environment: `{"env": {"PYTHONDONTWRITEBYTECODE": "1"}, "install": "/usr/bin/python3 setup.py --quiet build --build-base ~/built", "start": "test -f ~/built/lib/docopt.py"}`,
		test:        "PYTHONPATH=~/built/lib /usr/bin/python3 -m pytest -q --noconftest -p no:cacheprovider test_docopt.py | tail -1",
		passed:      `[1-9][0-9]* passed`,
	},
	{
		name: "go", source: "golang-github-google-uuid",
		// A login shell gets Debian's PATH, which does not contain this Go.
		environment: `{"env": {"GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}, "install": "export PATH=$PATH:GOROOT/bin\ngo test -c -o ~/uuid.test", "terminals": [{"name": "idle", "command": "sleep 600"}]}`,
		test:        "export PATH=$PATH:GOROOT/bin; test -x ~/uuid.test && go test ./...",
		passed:      `ok  \\tgithub.com/google/uuid`,
	},
}

// The server builds three projects in three languages once. Machines start from
// those builds, and each project passes its own tests there. The second start
// skips the build.
func TestRealProjects(t *testing.T) {
	t.Parallel()
	need.Root(t)
	git := gittest.New(t)
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.NewReplacer("GOROOT", strings.TrimSpace(string(goroot)))
	script := "scripts:\n"
	for _, p := range realProjects {
		script += fmt.Sprintf("  - match: %q\n    turns:\n      - calls:\n          - {tool: Shell, args: {command: %q, timeout: 300000}}\n      - text: They pass.\n", "Test "+p.name, words.Replace(p.test))
	}
	a := start(t, scripted(t, script))
	layer := regexp.MustCompile(`"layer":"(bld-[0-9a-f-]+)"`)
	for _, p := range realProjects {
		t.Run(p.name, func(t *testing.T) {
			a.t = t
			p.environment = words.Replace(p.environment)
			url := p.repository(t, git)
			var layers []string
			for i := range 2 {
				events := a.events(a.finish(a.create(url, "Test "+p.name, nil)).AgentID)
				if !regexp.MustCompile(p.passed).MatchString(events) {
					t.Errorf("its tests do not pass\n%s", events)
				}
				m := layer.FindStringSubmatch(events)
				if m == nil {
					t.Fatalf("no build\n%s", events)
				}
				layers = append(layers, m[1])
				if built := strings.Contains(events, `"name":"environment","state":"running"`); built != (i == 0) || strings.Contains(events, `"name":"install"`) {
					t.Errorf("start %d: a build was made: %v\n%s", i+1, built, events)
				}
			}
			if layers[0] != layers[1] {
				t.Errorf("the second start is from %s, the first from %s", layers[1], layers[0])
			}
		})
	}
	a.t = t
}

// repository creates a repository with the project and its environment.
func (p realProject) repository(t *testing.T, git *gittest.Server) (url string) {
	t.Helper()
	dir := t.TempDir()
	args := []string{p.source, dir}
	if p.upstream {
		args = append(args, "upstream")
	}
	if out, err := exec.Command("../../hack/debian-source.sh", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*", "LICENSE*"))
	if more, _ := filepath.Glob(filepath.Join(dir, "*", "COPYING")); len(found) == 0 {
		found = more
	}
	if err != nil || len(found) == 0 {
		t.Fatalf("no source in %s (%v)", dir, err)
	}
	tree := filepath.Dir(found[0])
	if err := os.MkdirAll(filepath.Join(tree, ".aloft"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, ".aloft", "environment.json"), []byte(p.environment), 0o644); err != nil {
		t.Fatal(err)
	}
	url = git.Empty(p.name)
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-Af", "."}, {"commit", "-qm", "The source"}, {"push", "-q", url, "main"},
	} {
		gittest.Git(t, tree, args...)
	}
	return url
}
