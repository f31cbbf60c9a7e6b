package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// An engine is an OCI runtime program.
type engine struct {
	path   string
	gvisor bool // it is runsc, which has flags of its own and a kernel of its own
	docker bool // its machines may run Docker; only with gvisor
}

func newEngine(path string) engine {
	return engine{path: path, gvisor: strings.HasPrefix(filepath.Base(path), "runsc")}
}

// arguments are those that make and start the machine, from the memory saved in
// a folder unless that is "", and return. The state's folder is one argument with
// its flag: by that, [Machine.kill] knows the processes that an engine leaves behind.
func (e engine) arguments(m *Machine, network bool, memory string) []string {
	args := []string{"--root=" + m.path("state")}
	if e.gvisor {
		net := "--network=none" // loopback only; the control plane reaches in over the socket
		if network {
			net = "--network=sandbox" // its own stack takes over the device's addresses
		}
		args = append(args,
			"--platform=systrap",
			net,
			"--host-uds=create", // pod-daemon's socket appears on the host
			"--overlay2=none",   // the root is an overlay of ours already
			"--file-access=exclusive",
			"--allow-suid", // sudo
			// The other end of a connection is gone when a machine wakes.
			"--allow-live-tcp-migration=false",
		)
	}
	if e.docker {
		// The sockets that Docker makes networks with: of gVisor's own network.
		args = append(args, "--net-raw", "--allow-packet-socket-write")
	}
	if memory == "" {
		args = append(args, "run")
	} else {
		args = append(args, "restore", "--image-path="+memory)
	}
	return append(args, "--detach", "--bundle="+m.path("bundle"), "--pid-file="+m.path("init.pid"), m.id)
}

// run starts the container, with the log as its output, and leaves it running.
func (e engine) run(ctx context.Context, m *Machine, network bool, memory string) (err error) {
	log, err := os.OpenFile(m.path("log"), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	cmd := e.command(ctx, m, e.arguments(m, network, memory)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// The machine has not started, so these are the engine's own words.
		words, _ := io.ReadAll(io.NewSectionReader(log, 0, maxWords))
		return fmt.Errorf("%s: %w: %s", filepath.Base(e.path), err, strings.TrimSpace(string(words)))
	}
	return nil
}

func (e engine) command(ctx context.Context, m *Machine, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, e.path, args...)
	cmd.Dir = m.dir
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return cmd
}

// maxWords bounds what is quoted of an engine's error output.
const maxWords = 4 << 10
