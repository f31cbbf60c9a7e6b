package egress

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"aloft/internal/policy"
)

// maxRecords is how many closed connections are kept.
const maxRecords = 4096

// maxDomains is how many names are recorded per address.
const maxDomains = 4

// A record describes an open connection.
type record struct {
	sent, received atomic.Int64
	n              uint64 // id of the connection in the log; 0 if it is not open

	mu sync.Mutex // guards the fields below
	c  policy.Connection
}

// newRecord starts the record of a judged connection.
func newRecord(network string, to netip.AddrPort, names []string, v policy.Verdict) *record {
	r := &record{c: policy.Connection{
		StartedAt: time.Now().UTC(), Network: network,
		Domain:  strings.Join(names[:min(len(names), maxDomains)], " "),
		Allowed: v.Allowed, Rule: v.Rule,
	}}
	if to.IsValid() {
		r.c.Address = to.String()
	}
	return r
}

// refuse records that the policy ended the connection. Only the first reason is
// kept.
func (r *record) refuse(rule string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c.Allowed && r.c.Error == "" {
		r.c.Allowed, r.c.Rule = false, rule
	}
}

// fail records an error. Only the first reason is kept.
func (r *record) fail(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c.Allowed && r.c.Error == "" {
		r.c.Error = why
	}
}

// snapshot returns the current state of the connection.
func (r *record) snapshot() policy.Connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.c
	out.Sent, out.Received = r.sent.Load(), r.received.Load()
	out.Duration = time.Since(out.StartedAt).Milliseconds()
	return out
}

// A ledger holds a machine's open connections and its most recent closed ones.
// It continues an existing log.
type ledger struct {
	mu     sync.Mutex
	log    *Log // nil disables the log
	last   uint64
	named  uint64
	closed []policy.Connection // at most 2*maxRecords, newest last
	open   map[*record]struct{}
	more   chan struct{} // closed when a record is added; nil if nobody waits
}

// newLedger returns a ledger that continues log. A nil log disables logging.
func newLedger(log *Log) *ledger {
	l := &ledger{open: map[*record]struct{}{}, log: log}
	if log == nil {
		return l
	}
	l.named, l.closed = log.initial.named, log.initial.all()
	for _, line := range log.initial.cut() {
		log.add(line, l.lines)
	}
	if n := len(l.closed); n > 0 {
		l.last = l.closed[n-1].Seq
	}
	log.initial = history{}
	return l
}

// lines returns the log lines of the open connections.
func (l *ledger) lines() []logLine {
	out := make([]logLine, 0, len(l.open))
	for r := range l.open {
		out = append(out, logLine{N: r.n, Connection: r.snapshot()})
	}
	return out
}

func (l *ledger) begin(r *record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.named++
	r.n = l.named
	l.open[r] = struct{}{}
	l.log.add(logLine{N: r.n, Connection: r.snapshot()}, l.lines)
}

func (l *ledger) end(r *record) {
	l.mu.Lock()
	delete(l.open, r)
	l.mu.Unlock()
	l.add(r)
}

// add assigns a sequence number to a closed connection and stores its record.
func (l *ledger) add(r *record) {
	s := r.snapshot()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	s.Seq = l.last
	l.closed = append(l.closed, s)
	if len(l.closed) >= 2*maxRecords {
		l.closed = slices.Clone(l.closed[len(l.closed)-maxRecords:])
	}
	l.log.add(logLine{N: r.n, Connection: s}, l.lines)
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
}

// after returns at most limit records whose sequence number is greater than
// seq, oldest first. The returned channel is closed when another record is
// added.
func (l *ledger) after(seq uint64, limit int) ([]policy.Connection, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more == nil {
		l.more = make(chan struct{})
	}
	kept := l.closed[max(0, len(l.closed)-maxRecords):]
	i, _ := slices.BinarySearchFunc(kept, seq, func(r policy.Connection, seq uint64) int {
		if r.Seq <= seq {
			return -1
		}
		return 1
	})
	return slices.Clone(kept[i:min(len(kept), i+limit)]), l.more
}

// active returns the records of open connections, oldest first.
func (l *ledger) active() []policy.Connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []policy.Connection
	for r := range l.open {
		out = append(out, r.snapshot())
	}
	slices.SortFunc(out, func(a, b policy.Connection) int { return a.StartedAt.Compare(b.StartedAt) })
	return out
}
