package agent

import (
	"hash/fnv"
	"slices"
	"strings"

	"aloft/internal/tool"
)

// CodeRepeats is the code of the notice that tells the model that it repeats a
// call without a change.
const CodeRepeats = "repeats"

// A Repeat is a call that failed several times with the same arguments and the
// same error, with no change in between.
type Repeat struct {
	Tool  string
	Args  string // shortened
	Count int
	key   uint64 // of the tool, the arguments and the error
}

// Repeats tracks repeated failures of a conversation. A call that may have
// changed something starts the count anew.
type Repeats struct {
	all    []Repeat // at most maxRepeats, the most recent last
	Warned bool     // the model was told, and nothing has changed since
}

const (
	maxRepeats    = 32
	maxRepeatArgs = 200
)

// Most returns the call that failed most often.
func (r *Repeats) Most() Repeat {
	var most Repeat
	for _, one := range r.all {
		if one.Count > most.Count {
			most = one
		}
	}
	return most
}

// onlyLooks are tools that change nothing. A successful call of another tool may
// have changed something.
var onlyLooks = []string{"Read", "LS", "Glob", "Grep", "SemSearch", "ReadLints", "ReadTodos", "Reflect", GrindPlanTool, GrindTool, "WebSearch", "WebFetch", "Fetch", "ListMcpResources", "FetchMcpResource"}

// waits reports whether a call waits for something, so that repeating it is no
// loop.
func waits(c Call) bool {
	return c.Name == "Await" || c.Name == "AskQuestion" || c.Name == "Shell" && strings.Contains(string(c.Args), "sleep")
}

// hasFailed reports whether a call failed, or its command exited with another
// code than 0, which is no error of the call.
func hasFailed(c Call, result *CallDone) bool {
	if result.Error || c.Name != "Shell" {
		return result.Error
	}
	code, _ := exitCode(result.Output)
	return code != 0
}

// called counts a failed call. It does not modify slices that copies share.
func (r *Repeats) called(c Call, result *CallDone) {
	failed := hasFailed(c, result)
	switch {
	case waits(c):
		return
	case !failed && slices.Contains(onlyLooks, c.Name):
		return
	case !failed || tool.Interrupted(result.Text): // it may have changed something
		*r = Repeats{}
		return
	}
	h := fnv.New64a()
	for _, part := range []string{c.Name, string(c.Args), result.Text} {
		_, _ = h.Write([]byte(part)) // never fails
		_, _ = h.Write([]byte{0})
	}
	key := h.Sum64()
	i := slices.IndexFunc(r.all, func(o Repeat) bool { return o.key == key })
	if i < 0 {
		args := string(c.Args)
		if len(args) > maxRepeatArgs {
			args = strings.ToValidUTF8(args[:maxRepeatArgs], "") + "…"
		}
		r.all = append(slices.Clone(r.all[max(len(r.all)-maxRepeats+1, 0):]), Repeat{c.Name, args, 1, key})
		return
	}
	one := r.all[i]
	one.Count++
	r.all = append(slices.Delete(slices.Clone(r.all), i, i+1), one)
}

// warned records that the model was told. The count starts anew, but a change
// is still needed before it may be told again.
func (r *Repeats) warned() {
	all := slices.Clone(r.all)
	for i := range all {
		all[i].Count = 0
	}
	*r = Repeats{all: all, Warned: true}
}
