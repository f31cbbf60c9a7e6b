// Package gitcmd builds every git command that Aloft runs, in the control plane and in
// machines. The commands read no system or user configuration, run no hooks, pagers,
// editors, credential helpers or file system monitors, and never prompt.
//
// git still reads a repository's own configuration, which may name filters and other
// programs. If that configuration is not trusted, a [StandIn] replaces the repository's
// git directory.
package gitcmd

import (
	"context"
	"os"
	"os/exec"
	"strings"
)

// always lists settings that apply to every command and override configuration files.
var always = [][2]string{
	{"core.hooksPath", os.DevNull},
	{"core.fsmonitor", "false"},
	{"core.alternateRefsCommand", "true"}, // the program true, which prints nothing
	{"core.pager", "cat"},
	{"credential.helper", ""}, // resets the list of helpers
	{"commit.gpgSign", "false"},
	{"tag.gpgSign", "false"},
	{"push.gpgSign", "false"},
	{"log.showSignature", "false"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
	{"receive.autogc", "false"},
	{"receive.updateServerInfo", "false"},
	{"protocol.ext.allow", "never"},
	{"safe.bareRepository", "explicit"}, // a bare repository is used only if named explicitly
	{"submodule.recurse", "false"},
	{"fetch.recurseSubmodules", "false"},
	{"push.recurseSubmodules", "no"},
}

// Program is the name of git on the PATH.
const Program = "git"

// Git describes how to run git. The zero value runs the git in the process's PATH, and
// sets only PATH and git's own variables.
type Git struct {
	Program string      // defaults to "git"
	Home    string      // HOME: a folder without configuration; defaults to "/nonexistent"
	System  string      // a trusted configuration file; none if empty
	Config  [][2]string // additional settings, which override the standard ones
	Path    string      // PATH; defaults to the process's
	Env     []string    // overrides the other variables
}

// Args returns the whole command line: the program, the standard settings and
// args.
func (g Git) Args(args ...string) []string {
	all := []string{g.Program}
	if g.Program == "" {
		all[0] = Program
	}
	for _, kv := range always {
		all = append(all, "-c", kv[0]+"="+kv[1])
	}
	for _, kv := range g.Config {
		all = append(all, "-c", kv[0]+"="+kv[1])
	}
	return append(all, args...)
}

// Environ returns the complete environment of the command. If it is appended to an
// environment without GIT_* variables, it overrides all variables that git reads.
func (g Git) Environ() []string {
	home, system := g.Home, g.System
	if home == "" {
		home = "/nonexistent"
	}
	if system == "" {
		system = os.DevNull
	}
	env := []string{
		"LC_ALL=C", "HOME=" + home, "XDG_CONFIG_HOME=" + home, // for versions without GIT_CONFIG_GLOBAL
		"GIT_CONFIG_SYSTEM=" + system, "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "GIT_PAGER=cat",
		"GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_LFS_SKIP_SMUDGE=1",
	}
	if g.System == "" {
		env = append(env, "GIT_CONFIG_NOSYSTEM=1")
	}
	return append(env, g.Env...)
}

// Command returns the command, not yet started. The caller may set its folder,
// streams and process attributes.
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

// AsUser returns the command as a person would type it. It uses the repository's
// configuration and hooks, so run it only in a machine, as the agent's user, where the
// project's hooks should run.
func AsUser(args ...string) []string { return append([]string{"git"}, args...) }

// Quote quotes a value for a git configuration file.
func Quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
