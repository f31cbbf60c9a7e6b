package shell

import (
	"fmt"
	"sync"
	"time"
)

// Limits on the output that is streamed while a command runs, because every
// delta is journaled and sent to all viewers.
const (
	deltaInterval = 100 * time.Millisecond
	deltaBytes    = 16 << 10  // of one stream in one delta
	deltaTotal    = 512 << 10 // of one command
)

// deltas streams output: immediately if there is little, in batches if there is much.
type deltas struct {
	emit Emit

	mu       sync.Mutex
	pending  [2][]byte
	dropped  [2]int64
	reported int
	started  bool

	wake chan struct{}
	stop chan struct{}
	idle chan struct{}
}

func newDeltas(emit Emit) *deltas {
	return &deltas{emit: emit, wake: make(chan struct{}, 1), stop: make(chan struct{}), idle: make(chan struct{})}
}

func (d *deltas) write(which int, p []byte) {
	if d.emit == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	room := min(len(p), deltaBytes-len(d.pending[which]))
	d.pending[which] = append(d.pending[which], p[:room]...)
	d.dropped[which] += int64(len(p) - room)
	if !d.started {
		d.started = true
		go d.run()
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *deltas) run() {
	defer close(d.idle)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-d.wake:
		case <-d.stop:
			return
		}
		d.flush(false)
		pause.Reset(deltaInterval)
		select {
		case <-pause.C:
		case <-d.stop:
			return
		}
	}
}

// close sends the rest of the output.
func (d *deltas) close() {
	d.mu.Lock()
	started := d.started
	d.mu.Unlock()
	if !started {
		return
	}
	close(d.stop)
	<-d.idle
	d.flush(true)
}

// flush sends pending output, except an incomplete character at its end.
func (d *deltas) flush(last bool) {
	d.mu.Lock()
	var text [2]string
	for i := range text {
		whole := d.pending[i]
		if !last && d.dropped[i] == 0 {
			whole = wholeRunes(whole)
		}
		text[i] = valid(whole)
		d.pending[i] = append(d.pending[i][:0], d.pending[i][len(whole):]...)
		if d.dropped[i] > 0 {
			text[i] += fmt.Sprintf("\n[… %d bytes left out here …]\n", d.dropped[i])
			d.dropped[i] = 0
		}
	}
	size := len(text[0]) + len(text[1])
	before := d.reported
	d.reported += size
	d.mu.Unlock()
	switch {
	case size == 0 || before > deltaTotal:
	case d.reported > deltaTotal:
		d.emit(text[0], text[1]+"\n[… the rest of the output is not streamed …]\n")
	default:
		d.emit(text[0], text[1])
	}
}
