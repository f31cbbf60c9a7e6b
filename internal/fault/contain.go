package fault

import (
	"fmt"
	"runtime/debug"
)

// Contain calls f and returns its error. If f panics, it returns an internal error whose
// cause contains the panic and its stack, for the log. Use Contain around work for one
// agent: otherwise a bug that this agent triggers would crash the server, and crash it
// again after every restart.
func Contain(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = (&Error{Kind: KindInternal, Code: "internal", Message: "a defect in Aloft ended this work"}).
				Hint("the server's log has the details: please report it").Because(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	return f()
}
