package pid1

import (
	"context"
	"path/filepath"
	"strconv"
)

// usualTmuxDir is where tmux puts its folders by itself.
const usualTmuxDir = "/tmp"

// tmuxSocket is where tmux of the agent's user listens by itself, so that a
// plain tmux in any shell finds the terminals.
func (d *Daemon) tmuxSocket() string {
	return filepath.Join(d.cfg.TmuxDir, "tmux-"+strconv.Itoa(int(d.user.UID)), "default")
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
		return "there are no terminals: " + err.Error(), nil
	}
	if _, err := d.kept.start(processSpec{
		name: terminalsName, policy: restartAlways,
		command: []string{"tmux", "-D", "-u", "-L", "default"},
		env:     map[string]string{"TMUX_TMPDIR": d.cfg.TmuxDir},
	}); err != nil {
		return "there are no terminals: " + err.Error(), nil
	}
	return "started", nil // who asks for a terminal waits for it
}

// tmuxFolder makes the folder of tmux's folders, where it is not the usual one.
func (d *Daemon) tmuxFolder() error {
	if d.cfg.TmuxDir == usualTmuxDir {
		return nil
	}
	return d.ownFolder(d.cfg.TmuxDir)
}
