package agent

import (
	"hash/fnv"
	"slices"
	"strings"
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
var onlyLooks = []string{"Read", "LS", "Glob", "Grep", "SemSearch", "ReadLints", "ReadTodos", "WebSearch", "WebFetch", "Fetch", "ListMcpResources", "FetchMcpResource"}

// waits reports whether a call waits for something, so that repeating it is no
// loop.
func waits(c Call) bool {
	return c.Name == "Await" || c.Name == "AskQuestion" || c.Name == "Shell" && strings.Contains(string(c.Args), "sleep")
}

// unknownEffects are parts of the results of calls that the failure of a machine
// or of exec-daemon interrupted: they may have changed something, and repeating
// them makes sense. The results are those of the packages loop and execd.
var unknownEffects = []string{"may or may not have taken effect", "may have had some or all of its effect", "the call was never started"}

// exitedWithError reports whether the text of a Shell result says that the
// command exited with another code than 0, which is no error of the call.
func exitedWithError(text string) bool {
	return strings.Contains(text, "[exit code ") && !strings.Contains(text, "[exit code 0]")
}

// called counts a failed call. It does not modify slices that copies share.
func (r *Repeats) called(c Call, result *CallDone) {
	interrupted := slices.ContainsFunc(unknownEffects, func(part string) bool { return strings.Contains(result.Text, part) })
	failed := result.Error || c.Name == "Shell" && exitedWithError(result.Text)
	switch {
	case waits(c):
		return
	case !failed && slices.Contains(onlyLooks, c.Name):
		return
	case !failed || interrupted:
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
