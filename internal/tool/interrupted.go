package tool

import (
	"slices"
	"strings"
)

// Texts of the results of calls that were interrupted from outside, and not because of
// the call.
const (
	Lost = "the machine was lost while this call was running; the call may have had some or all of its effect. " +
		"Files on disk are unchanged; processes, shell variables and the working directory are gone."
	Restarted = "exec-daemon was restarted while this call ran; it may or may not have taken effect. " +
		"Check what it should have changed before you retry"
	NeverStarted = "the call was never started and had no effect"
	NotEnded     = "the call was aborted but did not end in time; it may have had some or all of its effect"
)

// Interrupted reports whether the text of a result is one of these texts.
func Interrupted(text string) bool {
	return slices.ContainsFunc([]string{Lost, Restarted, NeverStarted, NotEnded}, func(t string) bool { return strings.HasPrefix(text, t) })
}
