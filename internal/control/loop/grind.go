package loop

import (
	"context"
	"fmt"
	"strings"

	"aloft/internal/agent"
)

// maxOpenShown is how many open items a notice lists.
const maxOpenShown = 50

// grind begins another round if the agent works in rounds, items of its todo
// list are open, and the last round has closed one. told means that the model
// was told so, and the rest of finish must wait.
func (l *Loop) grind(ctx context.Context) (told bool, err error) {
	s := l.rec.Snapshot()
	open := agent.OpenTodos(s.Todos)
	if !s.Grinding.On || len(open) == 0 || s.Mode == agent.ModePlan || !s.Grinding.Closed(open) {
		return false, nil
	}
	if err := l.checkLimits(); err != nil {
		return false, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Your todo list still has %d open items of %d. Go on with them:\n", len(open), len(s.Todos))
	for i, t := range open {
		if i == maxOpenShown {
			fmt.Fprintf(&b, "… and %d more (ReadTodos)\n", len(open)-i)
			break
		}
		fmt.Fprintf(&b, "- [%s] %s: %s\n", t.Status, t.ID, t.Content)
	}
	b.WriteString("\nMark each item as completed when it is done and verified. If one cannot be done, mark it as cancelled and say why in your final message. " +
		"If you end your turn without having closed any of them, the run ends.")
	return true, l.rec.Record(ctx, &agent.Notice{Code: agent.CodeOpenTasks, Text: b.String()})
}

// leftOpen returns the outcome of work in rounds that ends with open items, or
// "" if there are none.
func leftOpen(s *agent.State) agent.Outcome {
	open := agent.OpenTodos(s.Todos)
	switch {
	case !s.Grinding.On || len(open) == 0:
		return ""
	case s.Grinding.Closed(open):
		return agent.Partly
	}
	return agent.GaveUp
}
