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

// An engine is an OCI runtime program: runc, crun or runsc.
type engine struct {
	path   string
	gvisor bool // it is runsc, which takes other flags and brings its own kernel
	docker bool // its machines may run Docker
}

func newEngine(path string) engine {
	return engine{path: path, gvisor: strings.HasPrefix(filepath.Base(path), "runsc")}
}

// arguments returns the command line that creates and starts the machine in the
// background. If memory is not "", the machine resumes from the memory image in
// that folder. The flag --root=STATE must stay one argument: [Machine.kill]
// finds an engine's leftover processes by this argument.
func (e engine) arguments(m *Machine, network bool, memory string) []string {
	args := []string{"--root=" + m.path("state")}
	if e.gvisor {
		net := "--network=none" // loopback only; the control plane connects through the socket
		if network {
			net = "--network=sandbox" // gVisor's network stack takes over the device's addresses
		}
		args = append(args,
			"--platform=systrap",
			net,
			"--host-uds=create", // makes pod-daemon's socket visible on the host
			"--overlay2=none",   // the root is already an overlay
			"--file-access=exclusive",
			"--allow-suid", // needed by sudo
			// After a restore, the remote ends of saved connections are gone.
			"--allow-live-tcp-migration=false",
		)
	}
	if e.docker && e.gvisor {
		// Docker needs raw and packet sockets to set up networks. They belong
		// to gVisor's own network stack.
		args = append(args, "--net-raw", "--allow-packet-socket-write")
	}
	if memory == "" {
		args = append(args, "run")
	} else {
		args = append(args, "restore", "--image-path="+memory)
	}
	return append(args, "--detach", "--bundle="+m.path("bundle"), "--pid-file="+m.path("init.pid"), m.id)
}

// run starts the container in the background, with its output in the machine's
// log. owner is the host's id for root in the machine.
func (e engine) run(ctx context.Context, m *Machine, owner int, network bool, memory string) (err error) {
	log, err := os.OpenFile(m.path("log"), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if owner != 0 { // so that the machine can open its own output
		if err := log.Chown(owner, owner); err != nil {
			return err
		}
	}
	cmd := e.command(ctx, m, e.arguments(m, network, memory)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// The machine has not started, so the log contains only output of the engine.
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

// maxWords is how many bytes of a process's output an error message quotes.
const maxWords = 4 << 10
