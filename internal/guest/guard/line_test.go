package guard_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/guest/guard"
	"aloft/internal/guest/shell"
	"aloft/internal/guest/tool"
	"aloft/internal/guest/tool/tooltest"
	"aloft/internal/wire/agentv1"
)

// guarded is a workspace with a repository, and a shell in the workspace.
type guarded struct {
	t    *testing.T
	dir  string
	sb   *guard.Sandbox
	hand tool.Tool
}

func newGuarded(t *testing.T, helper string, setup ...string) *guarded {
	t.Helper()
	g := &guarded{t: t, dir: t.TempDir()}
	g.sb = &guard.Sandbox{Helper: helper, Workspace: g.dir}
	home, output := t.TempDir(), filepath.Join(t.TempDir(), "output")
	t.Setenv("HOME", home)
	t.Setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
	g.sb.Home, g.sb.Fixed, g.sb.State = home, []string{output}, filepath.Join(t.TempDir(), "repositories.json")
	for _, line := range append([]string{
		"git config --global user.email a@aloft.example; git config --global user.name Ann; git config --global protocol.file.allow always",
		"git init -q; echo one > one; git add one; git commit -qm one; mkdir plain",
	}, setup...) {
		cmd := exec.Command("bash", "-ec", line)
		cmd.Dir = g.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	session, err := shell.New(shell.Config{Dir: g.dir, OutputDir: output})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	g.hand = tool.Shell(session, g.sb)
	return g
}

func (g *guarded) run(args *agentv1.ShellArgs) string {
	call := &agentv1.ToolCall{Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: &agentv1.ShellToolCall{Args: args}}}
	return g.hand.Run(g.t.Context(), call, func(*agentv1.ToolCallDelta) {}).Text
}

// sandboxed runs a command line that no allow list permits.
func (g *guarded) sandboxed(line string) string {
	return g.run(&agentv1.ShellArgs{Command: line, RequestedSandboxPolicy: &agentv1.SandboxPolicy{Type: agentv1.SandboxPolicy_TYPE_WORKSPACE_READWRITE}})
}

var unconfined = &agentv1.SandboxPolicy{Type: agentv1.SandboxPolicy_TYPE_INSECURE_NONE, NetworkAccess: true}

// allowed runs a command line that an allow list permits, in the form in which
// the control plane sends it.
func (g *guarded) allowed(line string, guard *agentv1.ShellGuard) string {
	guard.SandboxPolicy = &agentv1.SandboxPolicy{Type: agentv1.SandboxPolicy_TYPE_WORKSPACE_READWRITE}
	args := &agentv1.ShellArgs{Command: line, RequestedSandboxPolicy: unconfined, Guard: guard}
	if len(guard.GetFolders()) > 0 { // an earlier line may have changed the session's folder
		args.WorkingDirectory = g.dir
	}
	return g.run(args)
}

// payload is a program that leaves a mark when it runs outside of the sandbox.
const payload = `printf '#!/bin/sh\n[ -n "$CURSOR_SANDBOX" ] || touch "%s/pwned"\nexec cat 2>/dev/null\n' "$PWD" > evil.sh; chmod +x evil.sh; `

// TestGitOfTheAgent has sandboxed commands prepare git's configuration, hooks,
// filters and PATH, and then runs a command line that an allow list permits. It
// must not run the prepared programs outside of the sandbox.
func TestGitOfTheAgent(t *testing.T) {
	helper := tooltest.Sandbox(t)
	hostile := payload + `git init -q %[1]s && git -C %[1]s config core.fsmonitor "$PWD/evil.sh" && git -C %[1]s config core.hooksPath "$PWD" && git -C %[1]s config alias.x '!touch pwned' && (cd %[1]s; touch f; git add f 2>/dev/null; git commit -qm f --no-verify); `
	in := func(dir string) string { return strings.ReplaceAll(hostile, "%[1]s", dir) }
	for _, c := range []struct {
		name, setup, attack, line string
		guard                     *agentv1.ShellGuard
		why                       string // part of the reason for the doubt
	}{
		{"a new repository", "", in("sub"), "cd sub && git status", &agentv1.ShellGuard{Git: true, Folders: []string{"sub"}}, "the repository in "},
		{"a new repository below a folder", "", "mkdir -p a/b/c/d; " + in("a/b/c/d"), "cd a/b/c; cd d; git diff", &agentv1.ShellGuard{Git: true, Folders: []string{"a/b/c", "d"}}, "the repository in "},
		{"in a folder that git found nothing in", "", in("plain"), "cd plain && git status", &agentv1.ShellGuard{Git: true, Folders: []string{"plain"}}, "the repository in "},
		{"moved there", "", in("sub") + "mv sub/.git plain/", "cd plain && git status", &agentv1.ShellGuard{Git: true, Folders: []string{"plain"}}, "the repository in "},
		{"unpacked", "", in("sub") + "tar cf x.tar sub; rm -r sub; tar xf x.tar", "cd sub && git status", &agentv1.ShellGuard{Git: true, Folders: []string{"sub"}}, "the repository in "},
		{"bare", "", in("sub") + "mv sub/.git bare; git -C bare config core.bare false; git -C bare config core.worktree \"$PWD/plain\"; git --git-dir=bare config core.worktree $PWD/plain", "cd bare && git status", &agentv1.ShellGuard{Git: true, Folders: []string{"bare"}}, "the repository in "},
		{"in git's own folder", "", in("sub") + "mv sub/.git .git/modules; echo 'gitdir: ../.git/modules' > plain/.git", "cd plain && git status", &agentv1.ShellGuard{Git: true, Folders: []string{"plain"}}, "the repository in "},
		{"as a submodule of the workspace", "", in("sub") + "git add sub", "git status", &agentv1.ShellGuard{Git: true}, "the repository in "},
		{"in a temporary folder", "", "cd $(mktemp -d /tmp/aloft-guard-XXXXXX); " + in("sub") + "cd sub", "git status", &agentv1.ShellGuard{Git: true}, "the repository in "},
		{"through a link", "", in("sub") + "ln -s sub link", "cd link && git status", &agentv1.ShellGuard{Git: true, Folders: []string{"link"}}, "the repository in "},
		{"hooks in the workspace", "git config core.hooksPath hooks", payload + "mkdir -p hooks; cp evil.sh hooks/pre-commit", "git commit -q --allow-empty -m x", &agentv1.ShellGuard{Git: true}, "core.hookspath"},
		{"a filter in the workspace", "git config filter.x.clean 'sh tools/clean'; mkdir tools; echo cat > tools/clean", payload + "cp evil.sh tools/clean; echo '* filter=x' > .gitattributes; echo two > one", "git add one", &agentv1.ShellGuard{Git: true}, "filter.x.clean"},
		{"an included file", "git config include.path ../team.gitconfig", payload + `printf '[core]\n\tfsmonitor = %s\n' "$PWD/evil.sh" > team.gitconfig`, "git status", &agentv1.ShellGuard{Git: true}, "include.path"},
		{"another user-wide file", "git config --global includeIf.gitdir:$PWD/.path $PWD/team.gitconfig", payload + `printf '[core]\n\tfsmonitor = %s\n' "$PWD/evil.sh" > team.gitconfig`, "git status", &agentv1.ShellGuard{Git: true}, "includeif."},
		{"a folder known only when it runs", "", in("sub"), "cd s*; git status", &agentv1.ShellGuard{Git: true, Elsewhere: true}, "known only when it runs"},
		{"a folder that does not exist yet", "", in("sub") + "tar cf x.tar sub; rm -r sub", "tar xf x.tar && cd sub && git status", &agentv1.ShellGuard{Git: true, Folders: []string{"sub"}}, "does not exist yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGuarded(t, helper, c.setup)
			if out := g.sandboxed(c.attack); !strings.Contains(out, "[exit code 0]") {
				t.Fatalf("the attack failed: %s", out)
			}
			got := g.allowed(c.line, c.guard)
			if !strings.Contains(got, "ran in the sandbox") || !strings.Contains(got, c.why) {
				t.Errorf("told %q", got)
			}
			refused := g.allowed(c.line, &agentv1.ShellGuard{Git: true, Folders: c.guard.Folders, Elsewhere: c.guard.Elsewhere, Refuse: true})
			if !strings.HasPrefix(refused, "not run outside the sandbox") {
				t.Errorf("told %q", refused)
			}
			if _, err := os.Stat(filepath.Join(g.dir, "pwned")); err == nil {
				t.Error("what a sandboxed command had written was run outside")
			}
			// Prove that the attack works without the guard, so that the test
			// can fail.
			args := &agentv1.ShellArgs{Command: c.line, RequestedSandboxPolicy: unconfined}
			if len(c.guard.GetFolders()) > 0 || c.guard.GetElsewhere() {
				args.WorkingDirectory = g.dir
			}
			g.run(args)
			_, err := os.Stat(filepath.Join(g.dir, "pwned"))
			if matches, _ := filepath.Glob("/tmp/aloft-guard-*/pwned"); err != nil && len(matches) == 0 {
				t.Error("the attack does nothing without the guard")
			}
		})
	}
}

// TestGitOfThePerson checks that permitted command lines run outside of the
// sandbox if sandboxed commands could not have changed the programs.
func TestGitOfThePerson(t *testing.T) {
	g := newGuarded(t, tooltest.Sandbox(t), "git init -q up; cd up; echo x > x; git add x; git commit -qm x",
		"git submodule --quiet add ./up deep/module; git commit -qm module; rm -rf up",
		"git worktree add -q deep/tree; mkdir -p deep/a/b/c/d; cd deep/a/b/c/d; git init -q; git config core.fsmonitor true; cp -r /usr/share/git-core/templates/hooks/. .git/hooks 2>/dev/null || true")
	g.sandboxed("echo two > one; mkdir new; git status; for i in $(seq 300); do mkdir -p many/$i; done")
	for _, c := range []struct {
		line    string
		folders []string
	}{
		{"git add one && git commit -qm two && git log -1 --format=%s", nil},
		{"cd deep/module && git status", []string{"deep/module"}},
		{"cd deep/tree; git log -1", []string{"deep/tree"}},
		{"cd new && git status", []string{"new"}},
		{"cd deep; cd a/b/c/d; git status", []string{"deep", "a/b/c/d"}},
		{"cd /; ls; git --version", []string{"/"}},
	} {
		if got := g.allowed(c.line, &agentv1.ShellGuard{Git: true, Folders: c.folders}); !strings.Contains(got, "[exit code 0]") || strings.Contains(got, "sandbox") {
			t.Errorf("%s: %q", c.line, got)
		}
	}
	// Repositories far below the root are protected too.
	if got := g.sandboxed("echo x >> " + g.dir + "/deep/a/b/c/d/.git/config"); !strings.Contains(got, "protected .git/config") {
		t.Errorf("a repository that is trusted can be changed: %q", got)
	}
	t.Run("after a restart", func(t *testing.T) {
		g.sandboxed("git init -q " + g.dir + "/later")
		again := &guard.Sandbox{Helper: g.sb.Helper, Workspace: g.dir, Home: g.sb.Home, Fixed: g.sb.Fixed, State: g.sb.State}
		session, err := shell.New(shell.Config{Dir: g.dir, OutputDir: g.sb.Fixed[0]})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
		g.sb, g.hand = again, tool.Shell(session, again)
		if got := g.allowed("git status", &agentv1.ShellGuard{Git: true, Folders: []string{"later"}}); !strings.Contains(got, "the repository in ") {
			t.Errorf("told %q", got)
		}
		if got := g.allowed("git status", &agentv1.ShellGuard{Git: true}); strings.Contains(got, "sandbox") {
			t.Errorf("told %q", got)
		}
	})
}

// TestGuardOfRunningCommands checks that git does not run outside of the
// sandbox while a sandboxed command runs, which could change git's
// configuration.
func TestGuardOfRunningCommands(t *testing.T) {
	g := newGuarded(t, tooltest.Sandbox(t))
	inside := &agentv1.SandboxPolicy{Type: agentv1.SandboxPolicy_TYPE_WORKSPACE_READWRITE}
	git := func() string { return g.allowed("git status", &agentv1.ShellGuard{Git: true}) }
	if got := git(); strings.Contains(got, "sandbox") {
		t.Fatalf("told %q", got)
	}
	for name, start := range map[string]*agentv1.ShellArgs{
		"in the background":     {Command: "echo $$ > pid; exec tail -f /dev/null", IsBackground: true, RequestedSandboxPolicy: inside},
		"left behind":           {Command: "setsid tail -f /dev/null >/dev/null 2>&1 & echo $! > pid", RequestedSandboxPolicy: inside},
		"git in the background": nil,
	} {
		if start == nil {
			got := g.run(&agentv1.ShellArgs{Command: "git status", IsBackground: true, RequestedSandboxPolicy: unconfined, Guard: &agentv1.ShellGuard{Git: true, Refuse: true, SandboxPolicy: inside}})
			if !strings.Contains(got, "not run outside") {
				t.Errorf("%s: told %q", name, got)
			}
			continue
		}
		if got := g.run(start); strings.Contains(got, "error") {
			t.Fatal(got)
		}
		if got := git(); !strings.Contains(got, "still running") {
			t.Errorf("%s: told %q", name, got)
		}
		g.run(&agentv1.ShellArgs{Command: "until [ -s pid ]; do :; done; kill $(cat pid); rm pid", RequestedSandboxPolicy: unconfined})
	}
}

// TestPathOfTheAgent runs a permitted command line while PATH contains a folder
// with the agent's programs.
func TestPathOfTheAgent(t *testing.T) {
	g := newGuarded(t, tooltest.Sandbox(t))
	for _, path := range []string{"$PWD/bin", "", ".", "/tmp/aloft-path-test", "'/tmp/a\"b'", "'/usr/bin\n'"} {
		g.run(&agentv1.ShellArgs{Command: "export PATH=" + path + ":/usr/bin:/bin", RequestedSandboxPolicy: unconfined})
		if got := g.allowed("ls", &agentv1.ShellGuard{}); !strings.Contains(got, "ran in the sandbox") || !strings.Contains(got, "PATH ha") {
			t.Errorf("%q in PATH: told %q", path, got)
		}
	}
}
