// Package repeat detects that a model repeats a failing tool call without changing
// anything in between.
package repeat

import (
	"hash/fnv"
	"slices"
	"strings"

	"aloft/internal/tool"
)

// A Call is a tool call that failed several times with the same arguments and the
// same error, with no change in between.
type Call struct {
	Tool  string
	Args  string // shortened
	Count int
	key   uint64 // hash of the tool, the arguments and the error
}

// A Tracker counts repeated failures of a conversation. A call that may have
// changed something resets the count.
type Tracker struct {
	all    []Call // at most maxRepeats, the most recent last
	Warned bool   // the model was warned, and nothing has changed since
}

const (
	maxRepeats    = 32
	maxRepeatArgs = 200
)

// Most returns the call that failed most often.
func (r *Tracker) Most() Call {
	var most Call
	for _, one := range r.all {
		if one.Count > most.Count {
			most = one
		}
	}
	return most
}

// An Attempt is one execution of a tool call.
type Attempt struct {
	Tool, Args string
	Result     string // as the model receives it
	Failed     bool   // the call returned an error, or its command exited with a non-zero status
}

// onlyLooks are tools that change nothing. A successful call of another tool may
// have changed something.
var onlyLooks = []string{"Read", "LS", "Glob", "Grep", "SemSearch", "ReadLints", "ReadTodos", "Reflect", "StartGrindPlanning", "StartGrindExecution", "WebSearch", "WebFetch", "Fetch", "ListMcpResources", "FetchMcpResource"}

// waits reports whether a call waits for something, so that repeating it is no
// loop.
func waits(a Attempt) bool {
	return a.Tool == "Await" || a.Tool == "AskQuestion" || a.Tool == "Shell" && strings.Contains(a.Args, "sleep")
}

// Record counts an attempt that failed. It does not modify slices that copies share.
func (r *Tracker) Record(a Attempt) {
	switch {
	case waits(a):
		return
	case !a.Failed && slices.Contains(onlyLooks, a.Tool):
		return
	case !a.Failed || tool.Interrupted(a.Result): // the call may have changed something
		*r = Tracker{}
		return
	}
	h := fnv.New64a()
	for _, part := range []string{a.Tool, a.Args, a.Result} {
		_, _ = h.Write([]byte(part)) // never fails
		_, _ = h.Write([]byte{0})
	}
	key := h.Sum64()
	i := slices.IndexFunc(r.all, func(o Call) bool { return o.key == key })
	if i < 0 {
		args := a.Args
		if len(args) > maxRepeatArgs {
			args = strings.ToValidUTF8(args[:maxRepeatArgs], "") + "…"
		}
		r.all = append(slices.Clone(r.all[max(len(r.all)-maxRepeats+1, 0):]), Call{a.Tool, args, 1, key})
		return
	}
	one := r.all[i]
	one.Count++
	r.all = append(slices.Delete(slices.Clone(r.all), i, i+1), one)
}

// SetWarned records that the model was warned. It resets the count, but the
// model is not warned again before something has changed.
func (r *Tracker) SetWarned() {
	all := slices.Clone(r.all)
	for i := range all {
		all[i].Count = 0
	}
	*r = Tracker{all: all, Warned: true}
}
