package image

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/fault"
)

// Progress is how far an image is on its way to being ready.
type Progress struct {
	Image  string // as it was asked for
	Note   string // what a person should know, such as a registry that does not answer; "" otherwise
	Layers int    // of the image that are not here yet
	Ready  int    // of those, unpacked
	Done   int64  // bytes fetched or read
	Total  int64  // bytes to fetch or read
}

// A teller tells about progress, not too often. A nil report tells nobody.
type teller struct {
	report func(Progress)

	mu   sync.Mutex
	now  Progress
	last time.Time
}

// tellEvery is the least time between two reports, but for those that matter.
const tellEvery = 100 * time.Millisecond

func newTeller(name string, report func(Progress)) *teller {
	return &teller{report: report, now: Progress{Image: name}}
}

// update changes what is to be told, and tells it if it is time or has to be said.
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

// Write counts bytes, so that a teller can stand behind a reader.
func (t *teller) Write(p []byte) (int, error) {
	t.update(false, func(now *Progress) { now.Done += int64(len(p)) })
	return len(p), nil
}

// diskFull gives the error of a full disk its kind.
func diskFull(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fault.Exhausted("the disk that holds the images is full").Named("disk_full").
			Hint("make room with `aloft image prune`, or put the data folder on a larger disk").Because(err)
	}
	return err
}
