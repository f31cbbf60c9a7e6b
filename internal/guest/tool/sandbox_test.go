package tool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/guest/guard"
	"aloft/internal/guest/shell"
	"aloft/internal/guest/tool"
	"aloft/internal/guest/tool/tooltest"
	"aloft/internal/need"
	"aloft/internal/wire/agentv1"
)

// confined returns a Sandbox around a workspace, with the real helper.
func confined(t *testing.T, dir string) *guard.Sandbox {
	t.Helper()
	return &guard.Sandbox{Helper: tooltest.Sandbox(t), Workspace: dir}
}

// TestShellInSandbox runs sandboxed and unsandboxed commands in one session.
func TestShellInSandbox(t *testing.T) {
	dir := t.TempDir()
	sb := confined(t, dir) // the build cache is the one in the real home folder
	t.Setenv("HOME", dir)
	output := filepath.Join(t.TempDir(), "output")
	session, err := shell.New(shell.Config{Dir: dir, OutputDir: output})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	sb.Fixed = []string{output}
	hand := tool.Shell(session, sb)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The agent could have written these files, so they must allow nothing.
	for _, name := range []string{".cursor/sandbox.json", ".aloft/sandbox.json"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(`{"type": "insecure_none", "additionalReadwritePaths": ["/etc"], "networkPolicy": {"default": "allow"}}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	added, near := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(near, "x"), []byte("near\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	none := &agentv1.SandboxPolicy{Type: agentv1.SandboxPolicy_TYPE_INSECURE_NONE}
	readonly := &agentv1.SandboxPolicy{Type: agentv1.SandboxPolicy_TYPE_WORKSPACE_READONLY}
	for _, step := range []struct {
		command string
		policy  *agentv1.SandboxPolicy
		want    string // part of the text that the model gets
	}{
		{"echo $CURSOR_SANDBOX $CURSOR_SANDBOX_LANDLOCK_STATUS", nil, "native fully_enforced"},
		{"echo $CURSOR_ORIG_UID $CURSOR_ORIG_GID", nil, fmt.Sprintf("%d %d\n", os.Getuid(), os.Getgid())},
		{"echo [$CURSOR_SANDBOX]", none, "[]\n"},
		{"echo x > /etc/aloft-pwned", nil, "sandbox: /etc/aloft-pwned may not be changed in the sandbox: outside what type workspace_readwrite lets change"},
		{"mkdir -p .vscode && echo x > .vscode/tasks.json", nil, "protected .vscode"},
		{"echo x > made && echo done", nil, "done\n"},
		{"echo x > made", readonly, "type workspace_readonly"},
		// Variables that are set in the sandbox stay in the sandbox, and the
		// next sandboxed command gets them.
		{"export A=inside; B='two\nlines'; f() { echo \"f $1\"; }; alias g='echo alias'; cd sub", nil, "exit code 0"},
		{"echo $A; echo \"$B\"; f x; g; pwd", nil, "inside\ntwo\nlines\nf x\nalias\n" + dir + "/sub\n"},
		{"echo [$A] [$B]; type f 2>&1 | tail -1; pwd", none, "[] []\n"},
		{"pwd", none, dir + "/sub\n"},
		{"echo [$A]", readonly, "[]\n"},
		// Variables that are exported outside are visible inside, unless a sandboxed command has
		// changed them.
		{"export A=outside C=outside", none, "exit code 0"},
		{"echo $A $C", nil, "inside outside\n"},
		{"export C=later", none, "exit code 0"},
		{"echo $C; cd ..", nil, "later\n"},
		{"pwd; exit 3", nil, "exit code 3"},
		{"pwd", none, dir + "\n"},
		// Commands cannot reach the sandbox's own files.
		{"ls " + output + "/*/ 2>&1 | grep -c -E 'report|drive'", nil, "0\n"},
		{"echo x > " + output + "/x", nil, "may not be changed"},
		{"kill -0 $PPID && kill -0 " + "1", nil, "exit code 1"},
		{"curl -s --max-time 5 http://127.0.0.1:1/ ; echo $HTTPS_PROXY", nil, "http://127.0.0.1:3128"},
		{"echo [$HTTPS_PROXY]", readonly, "[]\n"},
		{"echo err >&2; echo out > /dev/stdout", nil, "out\n"},
		// All fields of a call's policy apply.
		{"echo x > " + added + "/x", notmp(), "sandbox: " + added + "/x may not be changed"},
		{"echo x > " + added + "/x && echo wrote", notmp(func(p *agentv1.SandboxPolicy) { p.AdditionalReadwritePaths = []string{added} }), "wrote\n"},
		{"echo x > made", notmp(func(p *agentv1.SandboxPolicy) { p.AdditionalReadonlyPaths = []string{"made"} }), "additionalReadonlyPaths made"},
		{"cat " + near + "/x", narrow(), "sandbox: " + near + "/x may not be read in the sandbox: readBoundary workspace"},
		{"cat " + near + "/x", narrow(near), "near\n"},
		{"echo [$HTTPS_PROXY]", notmp(func(p *agentv1.SandboxPolicy) { p.NetworkAccess = true }), "[http://127.0.0.1:3128]\n"},
		{"echo [$HTTPS_PROXY]", notmp(func(p *agentv1.SandboxPolicy) {
			p.NetworkAccess, p.UnrestrictedHosts = true, true
			p.NetworkPolicy = &agentv1.NetworkPolicy{DefaultAllow: true}
		}), "[]\n"},
	} {
		args := &agentv1.ShellArgs{Command: step.command, RequestedSandboxPolicy: step.policy}
		call := &agentv1.ToolCall{Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: &agentv1.ShellToolCall{Args: args}}}
		got := hand.Run(t.Context(), call, func(*agentv1.ToolCallDelta) {})
		if !strings.Contains(got.Text, step.want) {
			t.Errorf("%s (%v): %q, want %q", step.command, step.policy, got.Text, step.want)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, ".vscode")); err == nil {
		t.Error("a placeholder is left")
	}
	off := tool.Shell(session, nil)
	call := &agentv1.ToolCall{Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: &agentv1.ShellToolCall{Args: &agentv1.ShellArgs{Command: "echo ran", RequestedSandboxPolicy: readonly}}}}
	if got := off.Run(t.Context(), call, func(*agentv1.ToolCallDelta) {}); !got.Error || strings.Contains(got.Text, "ran\n") {
		t.Errorf("without a sandbox, a command that asks for one: %+v", got.Text)
	}
}

// notmp returns a policy that grants no folder for temporary files, with the
// given changes.
func notmp(change ...func(*agentv1.SandboxPolicy)) *agentv1.SandboxPolicy {
	p := &agentv1.SandboxPolicy{Type: agentv1.SandboxPolicy_TYPE_WORKSPACE_READWRITE, DisableTmpWrite: true}
	for _, c := range change {
		c(p)
	}
	return p
}

// narrow returns a policy that allows reading only the workspace and the paths.
func narrow(paths ...string) *agentv1.SandboxPolicy {
	return notmp(func(p *agentv1.SandboxPolicy) {
		p.ReadBoundary, p.AdditionalReadPaths = agentv1.SandboxPolicy_READ_BOUNDARY_WORKSPACE, paths
	})
}

func TestGrepInSandbox(t *testing.T) {
	need.Command(t, "rg")
	dir := t.TempDir()
	sb := confined(t, dir)
	for name, text := range map[string]string{".cursorignore": "secret*\n", "secret.txt": "needle\n", "open.txt": "needle\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, rg := range []string{"rg", noRipgrep} {
		hand := tool.Grep(tool.Workspace{Dir: dir, Sandbox: sb, Ripgrep: rg})
		call := &agentv1.ToolCall{Tool: &agentv1.ToolCall_GrepToolCall{GrepToolCall: &agentv1.GrepToolCall{Args: &agentv1.GrepArgs{Pattern: "needle"}}}}
		got := hand.Run(t.Context(), call, nil)
		if got.Error || !strings.Contains(got.Text, "open.txt") || strings.Contains(got.Text, "secret.txt") {
			t.Errorf("with %s: found %q", rg, got.Text)
		}
	}
}
