package loop

import (
	"context"
	"fmt"

	"aloft/internal/agent"
	"aloft/internal/control/loop/proof"
	"aloft/internal/fault"
)

// watch warns the model once if it repeats a call that fails with the same
// error each time, with no change in between. If the model repeats it further,
// watch returns an error that ends the run.
func (t *thread) watch(ctx context.Context) error {
	s := t.state()
	most := s.Repeats.Most()
	if t.Limits.Repeats <= 0 || most.Count < t.Limits.Repeats {
		return nil
	}
	what := fmt.Sprintf("%s %s", most.Tool, most.Args)
	if s.Repeats.Warned {
		return fault.Conflict("the agent repeats a call that fails in the same way, without a change: %s", what).Named(proof.NoProgress).
			Hint("its work is saved; send a follow-up that says what to do differently")
	}
	return t.record(ctx, &agent.Notice{Code: agent.CodeRepeats, Text: fmt.Sprintf("The same call has failed %d times with the same error, and nothing was changed in between: %s\n"+
		"Repeating it will not change that. Find out why it fails and do something else; or if you cannot go on, end your turn and say what you need. "+
		"If you wait for something, use Await or sleep. If you go on like this, the run ends.", most.Count, what)})
}
