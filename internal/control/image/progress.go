package image

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/fault"
)

// Progress is the progress of preparing an image.
type Progress struct {
	Image  string // the requested name
	Note   string // a message for people, such as "the registry does not answer", or ""
	Layers int    // number of layers that were missing
	Ready  int    // number of those that are unpacked
	Done   int64  // bytes fetched or read
	Total  int64  // bytes to fetch or read
}

// A teller reports progress at a limited rate. If its report function is nil,
// it does nothing.
type teller struct {
	report func(Progress)

	mu   sync.Mutex
	now  Progress
	last time.Time
}

// tellEvery is the minimum time between reports, except important ones.
const tellEvery = 100 * time.Millisecond

func newTeller(name string, report func(Progress)) *teller {
	return &teller{report: report, now: Progress{Image: name}}
}

// update changes the progress, and reports it if must is set or enough time has
// passed.
func (t *teller) update(must bool, change func(*Progress)) {
	if t.report == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.now)
	if must || time.Since(t.last) >= tellEvery {
		t.last = time.Now()
		t.report(t.now)
	}
}

func (t *teller) note(text string) {
	t.update(true, func(p *Progress) { p.Note = text })
	t.update(false, func(p *Progress) { p.Note = "" })
}

// Write counts bytes, so that a teller can be used with io.TeeReader.
func (t *teller) Write(p []byte) (int, error) {
	t.update(false, func(now *Progress) { now.Done += int64(len(p)) })
	return len(p), nil
}

// diskFull turns the error of a full disk into a fault.
func diskFull(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fault.Exhausted("the disk that holds the images is full").Named("disk_full").
			Hint("make room with `aloft image prune`, or put the data folder on a larger disk").Because(err)
	}
	return err
}
