package pid1

import (
	"slices"
	"strings"
	"testing"

	"aloft/internal/wire/podv1"
)

// TestExecDaemonTakesNoVariableOfTheAgent checks that exec-daemon gets the
// agent's variables under names that do not affect it, and that neither they
// nor the image's variables set one of its flags.
func TestExecDaemonTakesNoVariableOfTheAgent(t *testing.T) {
	hostile := []string{"PATH", "LD_PRELOAD", "GIT_SSH_COMMAND", "BASH_ENV", "NODE_OPTIONS", "EXEC_DAEMON_SANDBOX_HELPER_PATH", "EXEC_DAEMON_RG_PATH", "EXEC_DAEMON_AUTH_TOKEN"}
	d := &Daemon{cfg: Config{ExecDaemon: "/aloft/bin/exec-daemon", ExecAddr: "127.0.0.1:1", PTYAddr: "127.0.0.1:2", TmuxDir: usualTmuxDir, GitConfig: systemGitConfig}, env: map[string]string{}}
	d.user.Store(&User{Name: "ubuntu", UID: 1000, Home: "/home/ubuntu", Shell: "/bin/bash"})
	for _, name := range hostile {
		d.env[name] = "/workspace/evil"
		if name != "PATH" { // the image may set these variables
			d.cfg.Environ = append(d.cfg.Environ, name+"=/image/evil")
		}
	}
	cmd := d.execCommand(&boot{d: d, req: &podv1.BootRequest{}}, "the-token")
	for _, kv := range cmd.Env {
		if strings.Contains(kv, "evil") && !strings.HasPrefix(kv, agentPrefix) {
			t.Errorf("exec-daemon has %s", kv)
		}
	}
	for _, want := range []string{"EXEC_DAEMON_AUTH_TOKEN=the-token", agentPrefix + "LD_PRELOAD=/workspace/evil"} {
		if !slices.Contains(cmd.Env, want) {
			t.Errorf("exec-daemon does not have %s", want)
		}
	}
	if slices.ContainsFunc(cmd.Args, func(arg string) bool { return strings.Contains(arg, "evil") }) {
		t.Errorf("exec-daemon is started as %q", cmd.Args)
	}
}
