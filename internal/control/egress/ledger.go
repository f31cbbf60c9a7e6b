package egress

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxRecords is how many connections that have ended are remembered.
const maxRecords = 4096

// Record is what is known of one connection, or of a name that was not looked up.
type Record struct {
	Seq       uint64    `json:"seq"` // in the order of their ends, from 1; 0 while it is open
	StartedAt time.Time `json:"startedAt"`
	Network   string    `json:"network"`           // tcp, udp or dns
	Address   string    `json:"address,omitempty"` // address:port
	Domain    string    `json:"domain,omitempty"`  // what the machine had looked up for it, several with spaces
	Sent      int64     `json:"sentBytes"`         // by the machine
	Received  int64     `json:"receivedBytes"`
	Duration  int64     `json:"durationMs"`
	Allowed   bool      `json:"allowed"`
	Rule      string    `json:"rule"`            // what decided
	Error     string    `json:"error,omitempty"` // why an allowed one came to nothing, or was cut

	sent, received *atomic.Int64
	mu             *sync.Mutex // guards Allowed, Rule and Error
}

// maxDomains bounds how many names of an address stand in its record.
const maxDomains = 4

func newRecord(network string, to netip.AddrPort, names []string) *Record {
	r := &Record{
		StartedAt: time.Now().UTC(), Network: network,
		Domain: strings.Join(names[:min(len(names), maxDomains)], " "),
		sent:   &atomic.Int64{}, received: &atomic.Int64{}, mu: &sync.Mutex{},
	}
	if to.IsValid() {
		r.Address = to.String()
	}
	return r
}

// refuse notes that the policy ended the connection. The first reason counts.
func (r *Record) refuse(rule string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Allowed && r.Error == "" {
		r.Allowed, r.Rule = false, rule
	}
}

// fail notes an error. The first reason counts.
func (r *Record) fail(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Allowed && r.Error == "" {
		r.Error = why
	}
}

// snapshot is the record as it stands.
func (r *Record) snapshot() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := *r
	out.Sent, out.Received = r.sent.Load(), r.received.Load()
	out.Duration = time.Since(r.StartedAt).Milliseconds()
	out.sent, out.received, out.mu = nil, nil, nil
	return out
}

// A ledger holds the records of a machine: those of open connections, and the
// last ones that have ended.
type ledger struct {
	mu    sync.Mutex
	last  uint64
	ended []Record // at most 2*maxRecords, the newest last
	open  map[*Record]struct{}
	more  chan struct{} // closed when one is added; nil while nobody waits
}

func newLedger() *ledger { return &ledger{open: map[*Record]struct{}{}} }

func (l *ledger) begin(r *Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[r] = struct{}{}
}

func (l *ledger) end(r *Record) {
	l.mu.Lock()
	delete(l.open, r)
	l.mu.Unlock()
	l.add(r)
}

// add numbers the record of what has ended.
func (l *ledger) add(r *Record) {
	s := r.snapshot()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	s.Seq = l.last
	l.ended = append(l.ended, s)
	if len(l.ended) >= 2*maxRecords {
		l.ended = slices.Clone(l.ended[len(l.ended)-maxRecords:])
	}
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
}

// after returns the records that ended after number seq, oldest first and at
// most limit, and a channel that is closed when there is another.
func (l *ledger) after(seq uint64, limit int) ([]Record, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more == nil {
		l.more = make(chan struct{})
	}
	kept := l.ended[max(0, len(l.ended)-maxRecords):]
	i, _ := slices.BinarySearchFunc(kept, seq, func(r Record, seq uint64) int {
		if r.Seq <= seq {
			return -1
		}
		return 1
	})
	return slices.Clone(kept[i:min(len(kept), i+limit)]), l.more
}

// active returns the records of open connections, the oldest first.
func (l *ledger) active() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Record
	for r := range l.open {
		out = append(out, r.snapshot())
	}
	slices.SortFunc(out, func(a, b Record) int { return a.StartedAt.Compare(b.StartedAt) })
	return out
}
