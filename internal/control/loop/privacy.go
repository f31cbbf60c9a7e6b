package loop

import "context"

// privacy reports whether the run is in privacy mode. In privacy mode, commit
// messages and everything else that leaves the server contain no text of the
// prompt or of the agent's replies.
func (l *Loop) privacy(ctx context.Context) (bool, error) {
	if l.Team.Privacy == nil {
		return false, nil
	}
	return l.Team.Privacy(ctx, l.rec.Snapshot().Run)
}
