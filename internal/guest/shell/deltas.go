package shell

import (
	"fmt"
	"sync"
	"time"
)

// Bounds of what is told of a command as it runs, for every delta is journaled
// and sent to whoever watches.
const (
	deltaInterval = 100 * time.Millisecond
	deltaBytes    = 16 << 10  // of one stream in one delta
	deltaTotal    = 512 << 10 // of one command
)

// deltas passes output on as it comes, at once where it is quiet and gathered
// where it is not.
type deltas struct {
	emit Emit

	mu      sync.Mutex
	pending [2][]byte
	dropped [2]int64
	told    int
	started bool

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

// close passes on the rest.
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

// flush passes on what is pending, except the beginning of a rune whose rest
// is still to come.
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
			text[i] += fmt.Sprintf("\n[… %d bytes not shown here …]\n", d.dropped[i])
			d.dropped[i] = 0
		}
	}
	size := len(text[0]) + len(text[1])
	before := d.told
	d.told += size
	d.mu.Unlock()
	switch {
	case size == 0 || before > deltaTotal:
	case d.told > deltaTotal:
		d.emit(text[0], text[1]+"\n[… the rest of the output is not shown as it comes …]\n")
	default:
		d.emit(text[0], text[1])
	}
}
