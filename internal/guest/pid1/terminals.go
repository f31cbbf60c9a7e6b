package pid1

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strconv"
	"time"
)

// usualTmuxDir is where tmux creates its socket folders by default.
const usualTmuxDir = "/tmp"

// terminalsPatience is how long to wait for tmux. A machine without terminals
// still works.
const terminalsPatience = 3 * time.Second

// tmuxSocket is the default socket path of tmux for the agent's user, so that a
// plain tmux command in any shell finds the terminals.
func (d *Daemon) tmuxSocket() string {
	return filepath.Join(d.cfg.TmuxDir, "tmux-"+strconv.Itoa(int(d.user.Load().UID)), "default")
}

// terminals starts the tmux server. It is a service of pod-daemon, so that
// terminals survive restarts of exec-daemon. Processes in terminals carry the
// mark of that service.
func (b *boot) terminals(_ context.Context, _ func(string)) (string, error) {
	d := b.d
	if lookPath("tmux", d.environ()) == "" {
		return "no terminals: tmux is not installed", nil
	}
	if p, err := d.roster.find(terminalsName); err == nil && !p.isFinished() {
		return "already running", nil
	}
	if err := d.tmuxFolder(); err != nil {
		return "no terminals: " + err.Error(), nil //nolint:nilerr // a machine works without terminals
	}
	p, err := d.roster.start(processSpec{
		name: terminalsName, policy: restartAlways,
		command: []string{"tmux", "-D", "-u", "-L", "default"},
		env:     map[string]string{"TMUX_TMPDIR": d.cfg.TmuxDir},
	})
	if err != nil {
		return "no terminals: " + err.Error(), nil //nolint:nilerr // a machine works without terminals
	}
	b.tmux = p.service
	return "started", nil // awaitTerminals waits for tmux while exec-daemon starts
}

// awaitTerminals waits for the tmux server that this boot has started. Without
// it, a tmux client would start its own server, which is not supervised.
func (b *boot) awaitTerminals(ctx context.Context) {
	if b.tmux == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, terminalsPatience, errors.New("tmux did not start in time"))
	defer cancel()
	if err := b.tmux.Listening(ctx, func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", b.d.tmuxSocket())
		if err == nil {
			_ = conn.Close()
		}
		return err
	}); err != nil {
		b.d.cfg.Log.Warn("terminals are not ready", "err", err)
	}
}

// tmuxFolder creates the folder for tmux's socket folders, if it is not the
// default one.
func (d *Daemon) tmuxFolder() error {
	if d.cfg.TmuxDir == usualTmuxDir {
		return nil
	}
	return d.ownFolder(d.cfg.TmuxDir)
}
