package pid1

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strconv"
	"time"
)

// usualTmuxDir is where tmux puts its folders by itself.
const usualTmuxDir = "/tmp"

// terminalsPatience bounds the wait for tmux: a machine without terminals is a
// machine too.
const terminalsPatience = 3 * time.Second

// tmuxSocket is where tmux of the agent's user listens by itself, so that a
// plain tmux in any shell finds the terminals.
func (d *Daemon) tmuxSocket() string {
	return filepath.Join(d.cfg.TmuxDir, "tmux-"+strconv.Itoa(int(d.user.Load().UID)), "default")
}

// terminals starts the tmux server. It is kept here and not by exec-daemon, so
// that terminals outlive that; what runs in them bears the server's mark.
func (b *boot) terminals(_ context.Context, _ func(string)) (string, error) {
	d := b.d
	if lookPath("tmux", d.environ()) == "" {
		return "tmux is not installed: there are no terminals", nil
	}
	if p, err := d.kept.find(terminalsName); err == nil && !p.over() {
		return "already running", nil
	}
	if err := d.tmuxFolder(); err != nil {
		return "there are no terminals: " + err.Error(), nil //nolint:nilerr // a machine without is one too
	}
	p, err := d.kept.start(processSpec{
		name: terminalsName, policy: restartAlways,
		command: []string{"tmux", "-D", "-u", "-L", "default"},
		env:     map[string]string{"TMUX_TMPDIR": d.cfg.TmuxDir},
	})
	if err != nil {
		return "there are no terminals: " + err.Error(), nil //nolint:nilerr // a machine without is one too
	}
	b.tmux = p.service
	return "started", nil // awaitTerminals, while exec-daemon starts
}

// awaitTerminals waits for the tmux server that this boot has started: a tmux
// that finds none would make its own, which nobody keeps.
func (b *boot) awaitTerminals(ctx context.Context) {
	if b.tmux == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, terminalsPatience, errors.New("tmux takes its time"))
	defer cancel()
	if err := b.tmux.listening(ctx, func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", b.d.tmuxSocket())
		if err == nil {
			_ = conn.Close()
		}
		return err
	}); err != nil {
		b.d.cfg.Log.Warn("no terminals yet", "err", err)
	}
}

// tmuxFolder makes the folder of tmux's folders, where it is not the usual one.
func (d *Daemon) tmuxFolder() error {
	if d.cfg.TmuxDir == usualTmuxDir {
		return nil
	}
	return d.ownFolder(d.cfg.TmuxDir)
}
