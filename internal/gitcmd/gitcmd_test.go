package gitcmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aloft/internal/gitcmd"
)

// trap is a repository whose git settings name a program wherever they can.
// Each of these programs is a trap: when it runs, it creates a file with the
// trap's name.
type trap struct {
	t              *testing.T
	dir, work, sub string
	home           string
}

// touch returns a shell command that records that the named trap's program has
// run.
func (p *trap) touch(name string) string {
	return "touch " + filepath.Join(p.dir, "sprung", name)
}

// sprung returns the names of the programs that have run since the last call.
func (p *trap) sprung() (names []string) {
	p.t.Helper()
	entries, err := os.ReadDir(filepath.Join(p.dir, "sprung"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		if err := os.Remove(filepath.Join(p.dir, "sprung", e.Name())); err != nil {
			p.t.Fatal(err)
		}
	}
	return names
}

func (p *trap) write(name, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		p.t.Fatal(err)
	}
}

// person runs git as a person would.
func (p *trap) person(dir string, args ...string) string {
	p.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+p.home, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_TERMINAL_PROMPT=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Logf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

const traps = "*.trap filter=trap diff=trap merge=trap\n*.own filter=own diff=own\n"

var hooks = []string{
	"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "pre-push", "post-index-change", "reference-transaction", "pre-auto-gc", "update", "pre-receive",
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	dir := t.TempDir()
	p := &trap{t: t, dir: dir, work: filepath.Join(dir, "work"), home: filepath.Join(dir, "home")}
	p.sub = filepath.Join(p.work, "sub")
	for _, d := range []string{"sprung", "home", "work"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The submodule's git directory is in .git/modules.
	lib := filepath.Join(dir, "lib")
	p.person(dir, "init", "--quiet", "--initial-branch=main", lib)
	p.write(filepath.Join(lib, "l.trap"), "lib\n")
	p.person(lib, "add", "--all")
	p.person(lib, "commit", "--quiet", "--message=lib")
	p.person(dir, "init", "--quiet", "--initial-branch=main", p.work)
	p.person(p.work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "sub")
	p.write(filepath.Join(p.work, "a.trap"), "one\n")
	p.write(filepath.Join(p.work, "b.own"), "one\n")
	p.person(p.work, "add", "--all")
	p.person(p.work, "commit", "--quiet", "--message=one")
	p.person(dir, "init", "--quiet", "--bare", "upstream.git")

	config := func(at, prefix string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "[core]\n\tfsmonitor = %q\n\tsshCommand = %q\n\tpager = %q\n\teditor = %q\n\talternateRefsCommand = %q\n\tgitProxy = %q\n",
			p.touch(prefix+"fsmonitor"), p.touch(prefix+"ssh"), p.touch(prefix+"pager"), p.touch(prefix+"editor"), p.touch(prefix+"alternate"), p.touch(prefix+"proxy"))
		fmt.Fprintf(&b, "[credential]\n\thelper = %q\n[diff]\n\texternal = %q\n[diff \"trap\"]\n\ttextconv = %q\n[diff \"own\"]\n\tcommand = %q\n",
			"!"+p.touch(prefix+"credential"), p.touch(prefix+"external"), p.touch(prefix+"textconv"), p.touch(prefix+"command"))
		fmt.Fprintf(&b, "[filter \"trap\"]\n\tclean = %q\n\tsmudge = %q\n[filter \"own\"]\n\tprocess = %q\n[merge \"trap\"]\n\tdriver = %q\n",
			p.touch(prefix+"clean")+"; cat", p.touch(prefix+"smudge")+"; cat", p.touch(prefix+"process"), p.touch(prefix+"merge"))
		fmt.Fprintf(&b, "[gpg]\n\tprogram = %q\n[commit]\n\tgpgSign = true\n[user]\n\tsigningKey = a\n[alias]\n\tstatus = %q\n", filepath.Join(p.dir, "gpg"), "!"+p.touch(prefix+"alias"))
		return b.String()
	}
	p.write(filepath.Join(dir, "gpg"), "#!/bin/sh\n"+p.touch("gpg")+"\nexit 1\n")
	p.write(filepath.Join(dir, "included"), config("", "included-"))
	p.write(filepath.Join(p.home, ".gitconfig"), config("", "home-"))
	for at, prefix := range map[string]string{filepath.Join(p.work, ".git"): "", filepath.Join(p.work, ".git/modules/sub"): "sub-"} {
		for _, h := range hooks {
			p.write(filepath.Join(at, "hooks", h), "#!/bin/sh\n"+p.touch(prefix+h)+"\n")
		}
		old, err := os.ReadFile(filepath.Join(at, "config"))
		if err != nil {
			t.Fatal(err)
		}
		p.write(filepath.Join(at, "config"), string(old)+config(at, prefix)+
			fmt.Sprintf("[includeIf \"gitdir:/\"]\n\tpath = %s\n[remote \"origin\"]\n\turl = ssh://nobody.invalid/r\n\tuploadpack = %q\n", filepath.Join(dir, "included"), p.touch(prefix+"uploadpack")))
		p.write(filepath.Join(at, "info/attributes"), traps)
	}
	p.write(filepath.Join(p.work, ".gitattributes"), traps)
	p.write(filepath.Join(p.work, "a.trap"), "two\n")
	p.write(filepath.Join(p.work, "b.own"), "two\n")
	p.write(filepath.Join(p.sub, "l.trap"), "changed\n")
	p.sprung()
	return p
}

// commands returns the git commands that the server and exec-daemon run on a
// repository.
func commands(p *trap) [][]string {
	return [][]string{
		{"status", "--porcelain"},
		{"diff", "--", "*.trap"},
		{"diff"},
		{"diff", "HEAD"},
		{"diff", "--stat", "HEAD"},
		{"add", "--all"},
		{"diff", "--cached"},
		{"commit", "--quiet", "--message=two"},
		{"log", "-p", "--show-signature"},
		{"show", "HEAD"},
		{"ls-files", "--others", "--exclude-standard"},
		{"push", filepath.Join(p.dir, "upstream.git"), "HEAD:refs/heads/x"},
		{"fetch", filepath.Join(p.dir, "upstream.git"), "x"},
		{"ls-remote", "http://127.0.0.1:1/r.git"},
		{"checkout", "--quiet", "--force", "HEAD", "--", "."},
	}
}

// TestTrapsWork proves that a person's git runs the traps' programs, so that
// the following tests can fail.
func TestTrapsWork(t *testing.T) {
	p := newTrap(t)
	for _, args := range append(commands(p), []string{"commit-tree", "-S", "-m", "signed", "HEAD^{tree}"}) {
		p.person(p.work, args...)
	}
	all := strings.Join(p.sprung(), " ")
	for _, want := range []string{"fsmonitor", "clean", "smudge", "textconv", "pre-push", "gpg", "sub-"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing ran of %s; what ran: %s", want, all)
		}
	}
}

// A stand-in is a substitute git directory: with it, git works on a repository and
// ignores the repository's configuration, hooks, filters and submodules.
func TestStandInRunsNothing(t *testing.T) {
	p := newTrap(t)
	r, ok := gitcmd.Find(filepath.Join(p.work, "."))
	if !ok || r.WorkTree != p.work {
		t.Fatalf("found %+v", r)
	}
	g, err := gitcmd.Git{Env: []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}}.On(r, filepath.Join(p.dir, "own"))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range commands(p) {
		cmd := g.Command(t.Context(), args...)
		cmd.Dir = p.work
		out, err := cmd.CombinedOutput()
		if names := p.sprung(); len(names) > 0 {
			t.Errorf("git %v ran %v", args, names)
		}
		if err != nil && args[0] != "ls-remote" {
			t.Errorf("git %v: %v\n%s", args, err, out)
		}
	}
	// The command did its work: the commit contains the unfiltered file.
	show := g.Command(t.Context(), "show", "HEAD:a.trap")
	show.Dir = p.work
	if out, err := show.Output(); err != nil || string(out) != "two\n" {
		t.Errorf("the commit has %q, %v", out, err)
	}
}

// Without a stand-in, git runs a repository's filters, as documented. It runs
// no hook, monitor, pager, helper or signing program that the repository or the
// user has configured.
func TestCommandRunsNoHook(t *testing.T) {
	p := newTrap(t)
	t.Setenv("HOME", p.home)
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(p.home, ".gitconfig"))
	t.Setenv("GIT_SSH_COMMAND", p.touch("environment"))
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
	t.Setenv("GIT_CONFIG_VALUE_0", p.touch("environment"))
	g := gitcmd.Git{Env: []string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}}
	for _, args := range [][]string{{"commit", "--quiet", "--allow-empty", "--message=two"}, {"ls-files"}, {"log"}, {"branch", "x"}, {"ls-remote", "http://127.0.0.1:1/r.git"}} {
		cmd := g.Command(t.Context(), args...)
		cmd.Dir = p.work
		_ = cmd.Run() // some commands fail, which does not matter here
		for _, name := range p.sprung() {
			if !filter.MatchString(name) {
				t.Errorf("git %v ran %s", args, name)
			}
		}
	}
}

// filter matches the settings of a repository whose programs run unless gitcmd replaces
// them by a harmless one.
var filter = regexp.MustCompile("(clean|smudge|process)$")

// A command in a working tree must not use a bare repository that is a folder
// of that tree, so that the bare repository's configuration has no effect.
func TestBareRepositoryInAWorkTree(t *testing.T) {
	p := newTrap(t)
	bare := filepath.Join(p.work, "docs")
	p.person(p.dir, "init", "--quiet", "--bare", bare)
	p.write(filepath.Join(bare, "config"), fmt.Sprintf("[core]\n\tbare = false\n\trepositoryformatversion = 0\n\tworktree = %s\n\tfsmonitor = %q\n", bare, p.touch("bare")))
	p.sprung()
	cmd := gitcmd.Git{}.Command(t.Context(), "status")
	cmd.Dir = bare
	out, err := cmd.CombinedOutput()
	if names := p.sprung(); len(names) > 0 {
		t.Errorf("git status ran %v", names)
	}
	if err == nil || !strings.Contains(string(out), "safe.bareRepository") {
		t.Errorf("git status: %v\n%s", err, out)
	}
}

// A quoted value cannot contain a second line of a configuration file.
func TestQuote(t *testing.T) {
	for _, value := range []string{"plain", "a b", `a"b`, `a\b`, "a\n[core]\n\tfsmonitor = true", "#no comment", ";none", ` "`, "\t"} {
		file := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(file, []byte("[x]\n\ty = "+gitcmd.Quote(value)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := gitcmd.Git{}.Command(t.Context(), "config", "--null", "--file", file, "--list").Output()
		if want := "x.y\n" + value + "\x00"; err != nil || string(out) != want {
			t.Errorf("%q is read as %q, %v", value, out, err)
		}
	}
}

// Files that name a git directory are parsed as git parses them, but only if
// they are regular files.
func TestOpen(t *testing.T) {
	p := newTrap(t)
	p.person(p.work, "worktree", "add", "--quiet", "--no-checkout", filepath.Join(p.dir, "linked"))
	common := filepath.Join(p.work, ".git")
	for work, want := range map[string]gitcmd.Repository{
		p.work:                         {WorkTree: p.work, GitDir: common, CommonDir: common},
		p.sub:                          {WorkTree: p.sub, GitDir: filepath.Join(common, "modules/sub"), CommonDir: filepath.Join(common, "modules/sub")},
		filepath.Join(p.dir, "linked"): {WorkTree: filepath.Join(p.dir, "linked"), GitDir: filepath.Join(common, "worktrees/linked"), CommonDir: common},
	} {
		got, ok := gitcmd.Open(work)
		if got.CommonDir = filepath.Clean(got.CommonDir); !ok || got != want {
			t.Errorf("%s: %+v, want %+v", work, got, want)
		}
	}
	odd := filepath.Join(p.dir, "odd")
	p.write(filepath.Join(odd, "x"), "")
	if err := os.Symlink(filepath.Join(p.dir, "linked", ".git"), filepath.Join(odd, ".git")); err != nil {
		t.Fatal(err)
	}
	if got, _ := gitcmd.Open(odd); got.GitDir != filepath.Join(odd, ".git") {
		t.Errorf("through a link: %+v", got)
	}
	if got, ok := gitcmd.Open(filepath.Join(p.dir, "home")); ok {
		t.Errorf("no repository: %+v", got)
	}
}
