package execclient

import (
	"strings"
	"sync"
	"unicode/utf8"

	"aloft/internal/wire/agentv1"
)

// Limits on received data of a call that was not consumed yet, in bytes.
const (
	maxID       = 128
	maxKnown    = 1024      // calls that a machine may report as known; exec-daemon keeps up to 512
	maxWaiting  = 512 << 10 // deltas that wait for onDelta; older ones are dropped
	maxDelta    = 256 << 10
	maxOutput   = 64 << 20 // bytes of all deltas of a call; the rest is dropped
	maxBreaks   = 16       // how many streams may break during one call
	deltaWeight = 128      // overhead per delta
)

// inFlight is a call with a waiter. The stream writes the fields, and Call
// reads them, under the call's own lock, so that a slow reader of one call does
// not delay other calls.
type inFlight struct {
	id       string
	message  *agentv1.ToolCall
	unhooked bool
	news     chan struct{} // holds a token when there is news

	// Calls.mu protects the following fields.
	bootID  string // boot of the machine to which the call was sent; "" before that
	aborted error  // the cause, if the call was aborted
	breaks  int    // number of streams that broke during the call; see maxBreaks

	mu      sync.Mutex
	last    uint64 // number of the newest delta
	waiting []Delta
	weight  int
	total   int
	result  *agentv1.ExecCompleted
	err     error
}

func newInFlight(id string, message *agentv1.ToolCall) *inFlight {
	return &inFlight{id: id, message: message, news: make(chan struct{}, 1)}
}

// hear handles a delta from the machine. It ignores a delta that it has already
// received.
func (f *inFlight) hear(delta *agentv1.ExecDelta) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if delta.GetSequence() <= f.last || f.over() {
		return
	}
	f.last = delta.GetSequence()
	shell := delta.GetDelta().GetShellToolCallDelta()
	d := Delta{Stdout: bound(shell.GetStdout(), maxDelta), Stderr: bound(shell.GetStderr(), maxDelta), Seq: f.last}
	weight := weigh(d)
	if f.total += weight; f.total > maxOutput || d.Stdout == "" && d.Stderr == "" {
		return
	}
	f.waiting = append(f.waiting, d)
	f.weight += weight
	drop := 0
	for f.weight > maxWaiting && drop < len(f.waiting)-1 {
		f.weight -= weigh(f.waiting[drop])
		drop++
	}
	f.waiting = f.waiting[drop:]
	f.tell()
}

func weigh(d Delta) int { return len(d.Stdout) + len(d.Stderr) + deltaWeight }

// complete sets the call's result.
func (f *inFlight) complete(result *agentv1.ExecCompleted) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over() {
		f.result = result
		f.tell()
	}
}

// fail ends the call without a result.
func (f *inFlight) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over() {
		f.err = err
		f.tell()
	}
}

func (f *inFlight) over() bool { return f.result != nil || f.err != nil }

func (f *inFlight) tell() {
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// take returns the deltas since the last call of take.
func (f *inFlight) take() (deltas []Delta, over bool, result *agentv1.ExecCompleted, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	deltas, f.waiting, f.weight = f.waiting, nil, 0
	return deltas, f.over(), f.result, f.err
}

// validID reports whether exec-daemon accepts id for a call.
func validID(id string) bool {
	return len(id) > 0 && len(id) <= maxID && strings.Trim(id,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// bound cuts s to at most limit bytes of valid UTF-8.
func bound(s string, limit int) string {
	if len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
