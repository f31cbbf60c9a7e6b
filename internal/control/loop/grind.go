package loop

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/control/loop/proof"
)

// grind begins another round if the agent works in rounds, items of its todo
// list are open, and the last round closed at least one item. If notified is
// true, grind has started a round, and the caller must not finish the run yet.
func (l *Loop) grind(ctx context.Context) (notified bool, err error) {
	s := l.rec.Snapshot()
	open := agent.OpenTodos(s.Todos)
	if !s.Grinding.On || len(open) == 0 || s.Mode == agent.ModePlan || !s.Grinding.Closed(open) {
		return false, nil
	}
	if err := l.checkLimits(); err != nil {
		return false, err
	}
	return true, l.rec.Record(ctx, &agent.Notice{Code: agent.CodeOpenTasks, Text: proof.OpenTodos(s.Todos, open)})
}
