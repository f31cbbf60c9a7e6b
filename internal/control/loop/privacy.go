package loop

import "context"

// privacy reports whether the run is in privacy mode. In that mode nothing that
// leaves the server, such as a commit message, contains text of the prompt or
// of the agent's replies.
func (l *Loop) privacy(ctx context.Context) (bool, error) {
	if l.Team.Privacy == nil {
		return false, nil
	}
	return l.Team.Privacy(ctx, l.rec.Snapshot().Run)
}
