package pod

import (
	"strings"
	"sync"
	"unicode/utf8"

	"aloft/internal/wire/agentv1"
)

// Bounds of what a call may bring here before it is taken, in bytes.
const (
	maxID       = 128
	maxKnown    = 1024      // calls that a machine may say it knows; exec-daemon keeps up to 512
	maxWaiting  = 512 << 10 // deltas that wait for onDelta; older ones are dropped
	maxDelta    = 256 << 10
	maxOutput   = 64 << 20 // all deltas of a call; what comes after is dropped
	maxBreaks   = 16       // streams that may break under one call before it is given up
	deltaWeight = 128      // of a delta beside its text
)

// inFlight is a call that somebody waits for. What has its own lock is
// written by the stream and read by Call, so that a slow reader of one call
// does not hold up another.
type inFlight struct {
	id      string
	message *agentv1.ToolCall
	news    chan struct{} // holds a token when there is something to take

	// Under Exec.mu.
	bootID  string // of the machine that it was sent to; empty until it was
	aborted error  // why, if it was
	breaks  int    // streams that broke under it; see maxBreaks

	mu      sync.Mutex
	last    uint64 // sequence of the newest delta
	waiting []Delta
	weight  int
	total   int
	result  *agentv1.ExecCompleted
	err     error
}

func newInFlight(id string, message *agentv1.ToolCall) *inFlight {
	return &inFlight{id: id, message: message, news: make(chan struct{}, 1)}
}

// hear takes a delta from the machine. One that was heard before is dropped.
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

// complete gives the call its result.
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

// take returns what came since it was called last.
func (f *inFlight) take() (deltas []Delta, over bool, result *agentv1.ExecCompleted, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	deltas, f.waiting, f.weight = f.waiting, nil, 0
	return deltas, f.over(), f.result, f.err
}

// validID reports whether exec-daemon would take id for a call's.
func validID(id string) bool {
	return len(id) > 0 && len(id) <= maxID && strings.Trim(id,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// bound returns s as valid UTF-8 of at most limit bytes.
func bound(s string, limit int) string {
	if len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
