// Package video records the desktop, and shows videos as pictures, both by
// ffmpeg where the machine has it. It starts no desktop, and plays nothing.
package video

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Bounds of a recording.
const (
	maxLength = 30 * time.Minute
	maxSize   = 1 << 30 // bytes
	framerate = 15      // a second
	maxWidth  = 1280    // pixels; a wider desktop is made smaller
	// keyframes is how many frames a fragment has: what has come of one is lost when
	// ffmpeg is killed, which is two seconds.
	keyframes = 30
)

// Times that ffmpeg has.
const (
	startTime = time.Minute      // until the first frame; a desktop may have to start for it
	stopTime  = 30 * time.Second // to write what it holds, which takes it 0.1 s
	saveTime  = 5 * time.Minute
)

// Errors for a model to read.
var (
	ErrNoFfmpeg    = errors.New("ffmpeg is not in this machine: install it (sudo apt-get install -y --no-install-recommends ffmpeg), or put it into the environment's image or install")
	ErrNoDesktop   = errors.New("this machine has no desktop: DISPLAY is not set. It comes with a VNC server in the image (tigervnc-standalone-server in Debian and Ubuntu)")
	errNoRecording = errors.New("nothing is recorded: begin with START_RECORDING")
)

// Config is what a Recorder is made of.
type Config struct {
	Display   string // as the variable DISPLAY; "" is no desktop
	Dir       string // absolute; where a recording is until it is saved
	Artifacts string // absolute; where it is saved
}

// A Recorder makes one recording at a time. What it has recorded is on disk two
// seconds later, so that it can be saved though this process, or the machine, has
// ended meanwhile. Its methods are safe for concurrent use.
type Recorder struct {
	Config
	bounds bounds
	mu     sync.Mutex
	now    *capture // nil where no recording has begun since New
}

// bounds are those of a recording.
type bounds struct {
	length time.Duration
	size   int64 // bytes
}

// Recording is what was recorded.
type Recording struct {
	Path   string // of the video; "" unless it was saved
	Length time.Duration
	Size   int64  // bytes
	Ended  string // why it had ended before it was asked to; "" where it had not
}

// New returns a recorder, which takes up what one before it has left.
func New(c Config) *Recorder { return &Recorder{Config: c, bounds: bounds{maxLength, maxSize}} }

// Lacks says what the machine lacks to record; nil if nothing.
func (r *Recorder) Lacks() error {
	if r.Display == "" {
		return ErrNoDesktop
	}
	_, err := program("ffmpeg")
	return err
}

// The files of a recording, in Dir: the video, which is there as long as it is
// neither saved nor discarded, and why it has ended, if that is known.
func (r *Recorder) video() string { return filepath.Join(r.Dir, "screen.mp4") }
func (r *Recorder) why() string   { return filepath.Join(r.Dir, "ended") }

// Start begins a recording, and returns once its first frame is there.
func (r *Recorder) Start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.Lacks(); err != nil {
		return err
	}
	switch ended, there := r.ended(); {
	case there && ended == "":
		return fmt.Errorf("a recording is under way, for %s so far: SAVE_RECORDING or DISCARD_RECORDING ends it", r.now.length().Round(time.Second))
	case there:
		return fmt.Errorf("there is a recording that is neither saved nor discarded, which has ended: %s. SAVE_RECORDING keeps it; DISCARD_RECORDING does not", ended)
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	c, err := begin(r.Display, r.video(), r.bounds)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("no frame of the desktop %s came within %s", r.Display, startTime))
	defer cancel()
	if err := c.firstFrame(ctx); err != nil {
		c.kill()
		return errors.Join(err, r.remove())
	}
	r.now = c
	return nil
}

// Save ends the recording and keeps it in the folder of artifacts, under a name
// that no file has there: the one given, with a number where it is taken, or one
// that tells the time where it is "". What cannot be saved is still there.
func (r *Recorder) Save(ctx context.Context, name string) (Recording, error) {
	name, err := fileName(name, time.Now())
	if err != nil {
		return Recording{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, err := r.end("")
	if err != nil {
		return rec, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, saveTime, fmt.Errorf("it could not be saved within %s", saveTime))
	defer cancel()
	whole := filepath.Join(r.Dir, "whole.mp4")
	defer func() { _ = os.Remove(whole) }() // it is gone once it is saved
	if rec.Length, err = rewrite(ctx, r.video(), whole); err != nil {
		return rec, fmt.Errorf("the recording is not saved: %w. It is still there: try again, or DISCARD_RECORDING", err)
	}
	if rec.Path, rec.Size, err = moveInto(whole, r.Artifacts, name); err != nil {
		return rec, fmt.Errorf("the recording is not saved: %w. It is still there: try again, or DISCARD_RECORDING", err)
	}
	return rec, r.remove()
}

// Discard ends the recording and removes it.
func (r *Recorder) Discard() (Recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, err := r.end("")
	if err != nil {
		return rec, err
	}
	return rec, r.remove()
}

// End ends the recording, if one is under way, for a reason that whoever saves or
// discards it is told.
func (r *Recorder) End(reason string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil || r.now.over() {
		return nil
	}
	_, err := r.end(reason)
	return err
}

// Close ends the recording as a part of this process's end.
func (r *Recorder) Close() error {
	return r.End("the machine stopped, or exec-daemon was started again")
}

// ended reports whether there is a recording, and why it has ended, "" while it
// has not. It needs r.mu.
func (r *Recorder) ended() (why string, there bool) {
	if _, err := os.Lstat(r.video()); err != nil {
		return "", false
	}
	if r.now != nil {
		if !r.now.over() {
			return "", true
		}
		if why := r.now.reason(); why != "" {
			return why, true
		}
	}
	if text, err := os.ReadFile(r.why()); err == nil && len(text) > 0 {
		return clean(string(text), 300), true
	}
	return "exec-daemon or the machine ended while it was recorded, and its last seconds may be missing", true
}

// end stops the recording. It needs r.mu.
func (r *Recorder) end(reason string) (Recording, error) {
	why, there := r.ended()
	if !there {
		if r.now != nil && !r.now.over() { // somebody has removed its file
			r.now.stop()
		}
		r.now = nil
		return Recording{}, errNoRecording
	}
	rec := Recording{Ended: why}
	if r.now != nil {
		if why == "" {
			r.now.stop()
		}
		rec.Length = r.now.length()
	}
	if info, err := os.Stat(r.video()); err == nil {
		rec.Size = info.Size()
	}
	if reason != "" {
		if err := os.WriteFile(r.why(), []byte(reason), 0o600); err != nil {
			return rec, fmt.Errorf("record: %w", err)
		}
		r.now = nil // what the file says is why
	}
	return rec, nil
}

// remove forgets the recording. It needs r.mu.
func (r *Recorder) remove() error {
	r.now = nil
	var wrong []error
	for _, file := range []string{r.video(), r.why()} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}
