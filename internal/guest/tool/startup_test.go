package tool_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/guest/shell"
	"aloft/internal/guest/tool"
	"aloft/internal/wire/agentv1"
)

// TestStartUpFiles has sandboxed commands attack the files that a login shell
// and git read outside of the sandbox. The home folder is writable inside.
func TestStartUpFiles(t *testing.T) {
	for _, home := range []string{"the workspace", "a folder that the policy opens"} {
		t.Run(home, func(t *testing.T) {
			dir, output := t.TempDir(), filepath.Join(t.TempDir(), "output")
			sb := confined(t, dir)
			policy := notmp()
			at := dir
			if home != "the workspace" {
				at = t.TempDir()
				policy.AdditionalReadwritePaths = []string{"~"}
			}
			if err := os.WriteFile(filepath.Join(at, ".profile"), []byte("export FROM_PROFILE=1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("HOME", at)
			sb.Home, sb.Fixed = at, []string{output}
			session, err := shell.New(shell.Config{Dir: dir, OutputDir: output})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = session.Close() })
			hand := tool.Shell(session, sb)
			run := func(command string, p *agentv1.SandboxPolicy) string {
				args := &agentv1.ShellArgs{Command: command, RequestedSandboxPolicy: p}
				call := &agentv1.ToolCall{Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: &agentv1.ShellToolCall{Args: args}}}
				return hand.Run(t.Context(), call, func(*agentv1.ToolCallDelta) {}).Text
			}
			evil := "[ -n \"$CURSOR_SANDBOX\" ] || touch " + filepath.Join(dir, "pwned")
			for _, name := range []string{".profile", ".bash_profile", ".bash_login", ".bash_logout", ".bashrc"} {
				run("echo '"+evil+"' > ~/"+name+"; echo '"+evil+"' > new && mv -f new ~/"+name+"; ln -sf "+dir+"/evil ~/"+name, policy)
			}
			run("mkdir -p ~/.config/git; printf '[alias]\\n\\tst = !touch "+dir+"/pwned\\n' | tee ~/.gitconfig > ~/.config/git/config", policy)
			run("echo '"+evil+"' > evil; cd ~ && mv .config .ssh elsewhere", policy)
			none := &agentv1.SandboxPolicy{Type: agentv1.SandboxPolicy_TYPE_INSECURE_NONE}
			run("exit", none) // the next command gets a new login shell
			run("bash --login -c true; bash -i -c true; bash --login -ic exit; git st", none)
			if got := run("echo from $FROM_PROFILE", none); got != "from 1\n[exit code 0]" {
				t.Errorf("the profile was not read: %q", got)
			}
			if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
				t.Error("a file written in the sandbox was run outside")
			}
			if got := run("echo x > ~/.bash_login", policy); home == "the workspace" && !strings.Contains(got, "protected .bash_login") {
				t.Errorf("the denial is explained as %q", got)
			}
			for _, name := range []string{".bash_profile", ".bash_login", ".config", ".ssh"} {
				if _, err := os.Lstat(filepath.Join(at, name)); err == nil {
					t.Errorf("a placeholder is left: %s", name)
				}
			}
		})
	}
}
