// Command pod-daemon is the first process of a machine. See internal/guest/pid1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"aloft/internal/guest/footprint"
	"aloft/internal/guest/pid1"
)

// usualPath is the PATH for an image that sets none.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if os.Getenv("PATH") == "" {
		// Commands are searched in this PATH.
		err = os.Setenv("PATH", usualPath)
	}
	if err == nil {
		err = run(ctx, os.Args[1:], os.Getenv, os.Environ(), os.Stderr)
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(os.Stderr, "pod-daemon:", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// oomScore makes the kernel kill processes of a machine before those of its host. In
// machines that may run Docker, the OCI runtime does not set the score, so this process
// does.
const oomScore = 500

// raiseOOMScore raises the score of this process and its descendants to oomScore.
func raiseOOMScore() {
	const file = "/proc/self/oom_score_adj"
	old, err := os.ReadFile(file)
	if n, bad := strconv.Atoi(strings.TrimSpace(string(old))); err == nil && bad == nil && n < oomScore {
		_ = os.WriteFile(file, []byte(strconv.Itoa(oomScore)), 0) // gVisor does not support the score
	}
}

var errUsage = errors.New("usage")

func run(ctx context.Context, args []string, getenv func(string) string, environ []string, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cfg, err := parse(args, getenv, filepath.Dir(self), stderr)
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	cfg.Environ = environ
	cfg.Log = slog.New(slog.NewTextHandler(stderr, nil))
	if os.Getpid() == 1 {
		raiseOOMScore()
		if err := leaveRootCgroup(cgroupDir); err != nil {
			cfg.Log.Warn("containers in this machine cannot have limits", "reason", err)
		}
	}
	daemon, err := pid1.New(cfg)
	if err != nil {
		return err
	}
	footprint.Keep(ctx)
	return daemon.Run(ctx)
}
