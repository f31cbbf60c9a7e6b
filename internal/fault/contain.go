package fault

import (
	"fmt"
	"runtime/debug"
)

// Contain runs f. If f panics, Contain returns an internal error, whose cause has
// the panic and its stack for the log. It is for work that serves one agent: a
// defect that this agent meets must not end the server, and end it again after
// each restart.
func Contain(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = (&Error{Kind: KindInternal, Code: "internal", Message: "a defect in Aloft ended this work"}).
				Hint("the server's log has the details: please report it").Because(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	return f()
}
