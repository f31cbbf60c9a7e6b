package loop

import "context"

// privacy reports whether the run is in privacy mode, in which the server writes
// nothing of the prompt or of the agent's words into what leaves it.
func (l *Loop) privacy(ctx context.Context) (bool, error) {
	if l.Privacy == nil {
		return false, nil
	}
	return l.Privacy(ctx, l.rec.snapshot().Run)
}
