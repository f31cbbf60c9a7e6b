// Package gitcmd builds every git command that Aloft runs, in the control plane
// and in machines. A command reads no configuration of the system or of a
// person, starts no hook, pager, editor, credential helper or file system
// monitor, and asks nobody anything.
//
// A repository's own configuration still counts where git reads it: it may name
// filters and other programs. Where that configuration is not ours, git is given
// a [StandIn] in place of the repository's git directory.
package gitcmd

import (
	"context"
	"os"
	"os/exec"
	"strings"
)

// always holds for every command, over what any file says.
var always = [][2]string{
	{"core.hooksPath", os.DevNull},
	{"core.fsmonitor", "false"},
	{"core.alternateRefsCommand", "true"}, // the program of that name, which prints nothing
	{"core.pager", "cat"},
	{"credential.helper", ""}, // empties the list
	{"commit.gpgSign", "false"},
	{"tag.gpgSign", "false"},
	{"push.gpgSign", "false"},
	{"log.showSignature", "false"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
	{"receive.autogc", "false"},
	{"receive.updateServerInfo", "false"},
	{"protocol.ext.allow", "never"},
	{"safe.bareRepository", "explicit"}, // a bare repository counts only where it is named
	{"submodule.recurse", "false"},
	{"fetch.recurseSubmodules", "false"},
	{"push.recurseSubmodules", "no"},
}

// Git is a way of running git. The zero value runs the git on the PATH with the
// process's PATH and no other variable of its environment.
type Git struct {
	Program string      // "git" if empty
	Home    string      // HOME; a folder without configuration; "/nonexistent" if empty
	System  string      // file of configuration that is ours; none if empty
	Config  [][2]string // holds beside what always does, and over it
	Path    string      // PATH; the process's if empty
	Env     []string    // over the rest of the environment
}

// Args returns the whole command: the program, what always holds, and args.
func (g Git) Args(args ...string) []string {
	all := []string{g.Program}
	if g.Program == "" {
		all[0] = "git"
	}
	for _, kv := range always {
		all = append(all, "-c", kv[0]+"="+kv[1])
	}
	for _, kv := range g.Config {
		all = append(all, "-c", kv[0]+"="+kv[1])
	}
	return append(all, args...)
}

// Environ returns the whole environment of the command. Set over another
// environment it replaces what git heeds, if that has no other variable GIT_*.
func (g Git) Environ() []string {
	home, system := g.Home, g.System
	if home == "" {
		home = "/nonexistent"
	}
	if system == "" {
		system = os.DevNull
	}
	env := []string{
		"LC_ALL=C", "HOME=" + home, "XDG_CONFIG_HOME=" + home, // read by versions that do not know GIT_CONFIG_GLOBAL
		"GIT_CONFIG_SYSTEM=" + system, "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "GIT_PAGER=cat",
		"GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_LFS_SKIP_SMUDGE=1",
	}
	if g.System == "" {
		env = append(env, "GIT_CONFIG_NOSYSTEM=1")
	}
	return append(env, g.Env...)
}

// Command returns the command, not yet started. Its caller may set folders,
// streams and attributes of the process.
func (g Git) Command(ctx context.Context, args ...string) *exec.Cmd {
	all := g.Args(args...)
	cmd := exec.CommandContext(ctx, all[0], all[1:]...)
	path := g.Path
	if path == "" {
		path = os.Getenv("PATH") //nolint:forbidigo // programs run the git that a shell would
	}
	cmd.Env = append([]string{"PATH=" + path}, g.Environ()...)
	return cmd
}

// AsUser returns the command that a person would type: it heeds the
// repository's configuration and runs the project's hooks. It is for a machine
// alone, as the agent's user, where the project's hooks are wanted.
func AsUser(args ...string) []string { return append([]string{"git"}, args...) }

// Quote writes a value so that git reads it back unchanged from a file of
// configuration.
func Quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
