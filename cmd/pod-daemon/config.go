package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"aloft/internal/guest/pid1"
)

// parse reads the flags. bin is the folder of this program; exec-daemon and Aloft's
// other commands are in another folder next to it.
func parse(args []string, getenv func(string) string, bin string, stderr io.Writer) (pid1.Config, error) {
	var c pid1.Config
	flags := flag.NewFlagSet("pod-daemon", flag.ContinueOnError)
	flags.SetOutput(stderr)
	socket := getenv("ALOFT_POD_SOCKET")
	if socket == "" {
		socket = "/run/aloft/pod.sock"
	}
	flags.StringVar(&c.Socket, "socket", socket, "unix socket for the control plane (ALOFT_POD_SOCKET)")
	flags.StringVar(&c.GitAddr, "git-listen", "127.0.0.1:26499", "address of the git gateway for git in the machine")
	flags.StringVar(&c.TraceAddr, "trace-listen", "127.0.0.1:26498", "address that accepts exec-daemon's telemetry, if the control plane asks for it")
	flags.StringVar(&c.EmbedAddr, "embed-listen", "127.0.0.1:26497", "address where exec-daemon requests embeddings, if the control plane offers them")
	flags.StringVar(&c.ExecAddr, "exec-addr", "127.0.0.1:26053", "exec-daemon's address")
	flags.StringVar(&c.PTYAddr, "pty-addr", "127.0.0.1:26054", "address of exec-daemon's PTY server")
	flags.StringVar(&c.ManageAddr, "manage-listen", "127.0.0.1:26500", "address of the management services; empty for none")
	flags.StringVar(&c.PullAddr, "pull-listen", "127.0.0.1:26501", "address of the proxy with which Docker pulls through the control plane, if that has credentials of registries")
	flags.StringVar(&c.DockerConf, "docker-defaults", "/etc/default/docker", "script that configures the service of Docker")
	flags.StringVar(&c.InsideAddr, "inside-listen", "127.0.0.1:50052", "address of the services for programs in the machine; empty for none")
	flags.StringVar(&c.APISocket, "api-socket", "/run/cursor/api.sock", "unix socket for metadata; empty for none")
	flags.StringVar(&c.Artifacts, "artifacts", "/opt/cursor/artifacts", "folder of files that should outlive the machine")
	flags.StringVar(&c.TmuxDir, "tmux-dir", "/tmp", "folder in which tmux creates its socket folder")
	flags.StringVar(&c.ExecDaemon, "exec-daemon", filepath.Join(bin, "exec-daemon", "exec-daemon"), "exec-daemon's program")
	flags.StringVar(&c.ExecState, "exec-state", "/run/aloft-exec", "exec-daemon's state folder")
	flags.StringVar(&c.User, "user", "ubuntu", "user of the agent's processes; empty for the current user")
	flags.StringVar(&c.Workspace, "workspace", "/workspace", "folder of the repository")
	flags.StringVar(&c.RunDir, "git-dir", "/run/aloft-git", "folder of the machine's git configuration")
	flags.StringVar(&c.DesktopDir, "desktop-dir", "/run/aloft-desktop", "folder of the desktop's files; empty for no desktop")
	flags.StringVar(&c.DataDir, "data", "/var/lib/aloft", "folder of data that survives a restart")
	flags.StringVar(&c.GitConfig, "git-config", "/etc/gitconfig", "git's system configuration")
	flags.DurationVar(&c.StopLimit, "stop-limit", 5*time.Second, "time limit for stopping")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("%q: pod-daemon takes flags only; see --help", flags.Arg(0))
	}
	for _, addr := range []string{c.GitAddr, c.TraceAddr, c.EmbedAddr, c.ExecAddr, c.PTYAddr, c.ManageAddr, c.InsideAddr, c.PullAddr} {
		if addr == "" && (c.ManageAddr == "" || c.InsideAddr == "") {
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return c, fmt.Errorf("address %q: %w", addr, err)
		}
	}
	for _, path := range []string{c.Socket, c.ExecDaemon, c.ExecState, c.Workspace, c.RunDir, c.DataDir, c.GitConfig, c.Artifacts, c.TmuxDir, c.DockerConf} {
		if !filepath.IsAbs(path) {
			return c, fmt.Errorf("path %q must be absolute", path)
		}
	}
	for _, path := range []string{c.APISocket, c.DesktopDir} {
		if path != "" && !filepath.IsAbs(path) {
			return c, fmt.Errorf("path %q must be absolute", path)
		}
	}
	if c.StopLimit <= 0 {
		return c, errors.New("--stop-limit must be positive")
	}
	c.BinDir = filepath.Dir(c.ExecDaemon)
	return c, nil
}
