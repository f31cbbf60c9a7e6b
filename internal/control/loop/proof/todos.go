package proof

import (
	"fmt"
	"strings"

	"aloft/internal/agent"
)

// maxOpenShown is how many open items a notice lists.
const maxOpenShown = 50

// OpenTodos tells the model which of its todo items are open.
func OpenTodos(todos, open []agent.Todo) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Your todo list still has %d open items of %d. Go on with them:\n", len(open), len(todos))
	for i, t := range open {
		if i == maxOpenShown {
			fmt.Fprintf(&b, "… and %d more (ReadTodos)\n", len(open)-i)
			break
		}
		fmt.Fprintf(&b, "- [%s] %s: %s\n", t.Status, t.ID, t.Content)
	}
	b.WriteString("\nMark each item as completed when it is done and verified. If one cannot be done, mark it as cancelled and say why in your final message. " +
		"If you end your turn without having closed any of them, the run ends.")
	return b.String()
}
